"""Type errors for names that do not exist, although modules import names lazily; `make check` runs them."""

import plugrad
import plugrad_nn as nn

absent = [
    plugrad.tenosr,  # type: ignore[attr-defined]
    plugrad.losses.msee,  # type: ignore[attr-defined]
    nn.Lineer,  # type: ignore[attr-defined]
]
