"""The dtype in which a backend stores data of a dtype that it lacks, and a check that inputs are floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.discovery.state import state
from plugrad.errors import DTypeError, warn
from plugrad.settings.layers import config
from plugrad.tensor.backend import make_unsupported_dtype_error
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype, nearest_dtype

if TYPE_CHECKING:
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DType


def nearest_stored_dtype(dtype: DType, backend: Backend) -> DType:
    """Return the dtype in which a backend stores data of `dtype`: the nearest one that it supports.

    The setting ``unsupported_dtype`` decides whether there is a warning, once for each dtype.

    Raises:
        UnsupportedDtype: the backend does not have `dtype`, and the setting is "error" or there is none
            near it.
    """
    if dtype in (known := backend.dtypes()):
        return dtype
    policy = config.get("unsupported_dtype")
    taken = None if policy == "error" else nearest_dtype(dtype, known)
    if taken is None:
        raise make_unsupported_dtype_error(dtype, backend)
    if policy == "convert" and (backend.name, dtype.name) not in state.warned_dtypes:
        warn(
            f"backend {backend.name!r} does not have {dtype}, so data of this dtype become {taken}. Ask for a dtype, "
            f"as in asarray(x, dtype={str(taken)!r}), or set unsupported_dtype to 'silent' or 'error'"
        )
        state.warned_dtypes.add((backend.name, dtype.name))
    return taken


def requested_dtype(dtype: DType, backend: Backend) -> DType:
    """Return a requested dtype, or the nearest stored one if the setting ``unsupported_dtype`` is "always".

    Raises:
        UnsupportedDtype: the backend does not have `dtype`, and the setting is another one or there is
            no dtype near it.
    """
    if dtype in (known := backend.dtypes()):
        return dtype
    taken = nearest_dtype(dtype, known) if config.get("unsupported_dtype") == "always" else None
    if taken is None:
        raise make_unsupported_dtype_error(dtype, backend)
    return taken


def check_floats(op: str, **operands: TensorLike | None) -> None:
    """Raise if a tensor or an array is not floating; lists, which have no dtype, may hold integers.

    Layers of networks call this. Integer inputs are mostly unscaled pixels, on which a network
    silently trains badly.

    Raises:
        DTypeError: one holds whole numbers or bools.
    """
    for name, x in operands.items():
        if isinstance(x, Tensor | np.ndarray) and x.dtype.kind in _NON_FLOAT_KINDS:
            raise DTypeError(
                f"{op}: {name} is {as_dtype(x.dtype)} and must be a float; convert it, as in "
                f"plugrad.astype({name}, 'float32'), and scale it if it is an image"
            )


_NON_FLOAT_KINDS = frozenset(
    {"bool", "signed", "unsigned", *"biu"}
)  # in plugrad's and NumPy's words
"""The kinds of dtypes that are bools or integers, in plugrad's words and NumPy's letters."""
