"""The error for names that plugrad does not have, and what to write instead of those of other frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from plugrad.errors import raise_missing_name

if TYPE_CHECKING:
    from types import ModuleType

MISSING_NAME_HINTS: Final = {
    "backend": "plugrad.which() tells which backend is active, and plugrad.backends() which are installed",
    "cast": "write plugrad.astype(x, dtype)",
    "clamp": "write plugrad.clip(x, least, most)",
    "compile": "write plugrad.jit(function)",
    "constant": "write plugrad.asarray(data)",
    "convert_to_tensor": "write plugrad.asarray(data)",
    "device": "write plugrad.use(name), for a block or from there on; x.device is the device of a tensor",
    "from_numpy": "write plugrad.asarray(array)",
    **dict.fromkeys(
        ("distributions", "integrate", "interpolate", "optimize", "special"),
        'it is a module of its own package: pip install "plugrad[numerics]", and import it from plugrad_numerics',
    ),
    "gather": "write plugrad.take(x, positions, axis=0)",
    "losses.cross_entropy": "write plugrad.losses.softmax_cross_entropy(labels, logits)",
    "losses.mae": "write plugrad.losses.absolute_difference(labels, predictions)",
    "losses.mse": "write plugrad.losses.mean_squared_error(labels, predictions)",
    "manual_seed": "write plugrad.random.seed(seed)",
    "nn": 'layers are a package of their own: pip install "plugrad[nn]", and import plugrad_nn as nn',
    "no_grad": "only functions given to plugrad.grad are recorded; plugrad.stop_gradient(x) leaves a part out",
    "print": "write print(x)",
    "rand": "write plugrad.random.uniform(shape)",
    "randn": "write plugrad.random.normal(shape)",
    "random.rand": "write plugrad.random.uniform(shape)",
    "random.randint": "write plugrad.random.integers(shape, least, end)",
    "random.randn": "write plugrad.random.normal(shape)",
    "scalar": "write plugrad.asarray(number)",
    "set_backend": "write plugrad.use(name)",
    "hard_swish": "write plugrad.hard_silu(x)",
    "swish": "write plugrad.silu(x)",
    "tensor": "write plugrad.asarray(data)",
    "transpose": "write plugrad.permute_dims(x, axes), or x.T for a matrix",
}
"""What other frameworks have under a name, and plugrad has under none that is similar."""


def raise_missing_export(namespace: ModuleType, name: str) -> NoReturn:
    """Raise the error for a name that a public module of plugrad does not have.

    Raises:
        AttributeError: always; it says what to write instead, or suggests a similar name.
    """
    raise_missing_name(namespace, MISSING_NAME_HINTS, name)
