"""The error for names that plugrad lacks, with hints for the names of other frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from plugrad.errors import raise_missing_name
from plugrad.importing import import_lazily

if TYPE_CHECKING:
    from types import ModuleType

PUBLIC_NAMESPACES: Final = (
    "",
    "fft",
    "image",
    "linalg",
    "losses",
    "optimizers",
    "random",
    "signal",
)
"""The public modules that are searched for a name that another one lacks; "" is plugrad itself."""

MISSING_NAME_HINTS: Final = {
    "absolute": "write plugrad.abs(x)",
    "add_at": "write x[key] += value",
    "allclose": "write plugrad.all(plugrad.abs(x - y) <= tolerance)",
    "amax": "write plugrad.max(x, axis=0)",
    "amin": "write plugrad.min(x, axis=0)",
    "arccos": "write plugrad.acos(x)",
    "arccosh": "write plugrad.acosh(x)",
    "arcsin": "write plugrad.asin(x)",
    "arcsinh": "write plugrad.asinh(x)",
    "arctan": "write plugrad.atan(x)",
    "arctan2": "write plugrad.atan2(y, x)",
    "arctanh": "write plugrad.atanh(x)",
    "array": "write plugrad.asarray(data)",
    "average": "write plugrad.mean(x, axis=0)",
    "avg_pool2d": "write plugrad.avg_pool(x, size)",
    "backend": "plugrad.which() tells which backend is active, and plugrad.backends() which are installed",
    "batch_matmul": "write plugrad.matmul(x, y)",
    "bmm": "write plugrad.matmul(x, y)",
    "cast": "write plugrad.astype(x, dtype)",
    "cat": "write plugrad.concat([x, y], axis=0)",
    "clamp": "write plugrad.clip(x, least, most)",
    "clip_by_value": "write plugrad.clip(x, least, most)",
    "compile": "write plugrad.jit(function)",
    "concatenate": "write plugrad.concat([x, y], axis=0)",
    "constant": "write plugrad.asarray(data)",
    "conv_transpose2d": "write plugrad.conv2d_transpose(x, filters, strides=2)",
    "convert_to_tensor": "write plugrad.asarray(data)",
    "cross_entropy": "write plugrad.losses.softmax_cross_entropy(labels, logits)",
    "cumprod": "write plugrad.cumulative_prod(x, axis=0)",
    "cumsum": "write plugrad.cumulative_sum(x, axis=0)",
    "custom_jvp": "write plugrad.custom_grad(function)",
    "custom_vjp": "write plugrad.custom_grad(function)",
    "default_backend": "plugrad.which() tells which backend is active",
    "detach": "write plugrad.stop_gradient(x)",
    "device": "write plugrad.use(name), for a block or from there on; x.device is the device of a tensor",
    "device_put": "write x.to(name)",
    "dstack": "write plugrad.concat([x, y], axis=2)",
    "embedding": "write plugrad.take(table, positions, axis=0)",
    "enable_grad": "only functions given to plugrad.grad are recorded",
    "expand": "write plugrad.broadcast_to(x, shape)",
    "fabs": "write plugrad.abs(x)",
    "fix": "write plugrad.trunc(x)",
    "flatten": "write plugrad.reshape(x, -1)",
    "fliplr": "write plugrad.flip(x, axis=1)",
    "flipud": "write plugrad.flip(x, axis=0)",
    "fori_loop": "write plugrad.scan(step, carry, length=n), or plugrad.while_loop(condition, step, *carry)",
    "from_numpy": "write plugrad.asarray(array)",
    "function": "write plugrad.jit(function)",
    "functional": "ops are functions of plugrad, as in plugrad.relu(x)",
    **dict.fromkeys(
        ("distributions", "integrate", "interpolate", "optimize", "special"),
        'it is a module of its own package: pip install "plugrad[numerics]", and import it from plugrad_numerics',
    ),
    "gather": "write plugrad.take(x, positions, axis=0)",
    "get_default_dtype": "numbers of Python become float32, and the dtype of a tensor is x.dtype",
    "GradientTape": "plugrad.grad(f)(x) returns the gradient of a function",
    "gradient": "write plugrad.grad(f)(x), or plugrad.diff(x) for differences",
    "hard_swish": "write plugrad.hard_silu(x)",
    "hstack": "write plugrad.concat([x, y], axis=1)",
    "index_select": "write plugrad.take(x, positions, axis=0)",
    "inference_mode": "only functions given to plugrad.grad are recorded",
    "isclose": "write plugrad.abs(x - y) <= tolerance",
    "jacfwd": "write plugrad.jacobian(f)(x)",
    "jacrev": "write plugrad.jacobian(f)(x)",
    "lax": "control flow is plugrad.cond, plugrad.scan and plugrad.while_loop; ops are functions of plugrad",
    "linear": "write x @ weights + bias",
    "losses.binary_cross_entropy": "write plugrad.losses.log_loss(labels, probabilities)",
    "losses.cross_entropy": "write plugrad.losses.softmax_cross_entropy(labels, logits)",
    "losses.l1_loss": "write plugrad.losses.absolute_difference(labels, predictions)",
    "losses.mae": "write plugrad.losses.absolute_difference(labels, predictions)",
    "losses.mse": "write plugrad.losses.mean_squared_error(labels, predictions)",
    "manual_seed": "write plugrad.random.seed(seed)",
    "masked_fill": "write plugrad.where(mask, value, x)",
    "masked_select": "write x[mask]",
    "max_pool2d": "write plugrad.max_pool(x, size)",
    "mm": "write plugrad.matmul(x, y)",
    "mod": "write plugrad.remainder(x, y)",
    "mse_loss": "write plugrad.losses.mean_squared_error(labels, predictions)",
    "mul": "write plugrad.multiply(x, y)",
    "mv": "write plugrad.matmul(x, y)",
    "nan_to_num": "write plugrad.where(plugrad.isnan(x), 0, x)",
    "ndarray": "the class is plugrad.Tensor; write plugrad.asarray(data)",
    "nn": 'layers are a package of their own: pip install "plugrad[nn]", and import plugrad_nn as nn',
    "no_grad": "only functions given to plugrad.grad are recorded; plugrad.stop_gradient(x) leaves a part out",
    "numel": "write x.size",
    "numpy": "x.numpy() returns an array, and functions of NumPy take tensors, as in numpy.sin(x)",
    "optim": "write plugrad.optimizers.Adam(0.01)",
    "percentile": "write plugrad.quantile(x, percent / 100)",
    "pmap": 'programs on many machines are a package of their own: pip install "plugrad[distributed]"',
    "power": "write plugrad.pow(x, y)",
    "print": "write print(x)",
    "put_along_axis": "write x[key] = value, or plugrad.scatter_nd(positions, updates, shape)",
    "rand": "write plugrad.random.uniform(shape)",
    "randint": "write plugrad.random.integers(shape, least, end)",
    "randn": "write plugrad.random.normal(shape)",
    "random.choice": "write plugrad.take(x, plugrad.random.integers(shape, 0, n))",
    "random.rand": "write plugrad.random.uniform(shape)",
    "random.randint": "write plugrad.random.integers(shape, least, end)",
    "random.randn": "write plugrad.random.normal(shape)",
    "random.PRNGKey": "write plugrad.random.Generator(seed)",
    "random.key": "write plugrad.random.Generator(seed)",
    "random.split": "make generators with plugrad.random.Generator(seed)",
    "randperm": "write plugrad.random.permutation(n)",
    "ravel": "write plugrad.reshape(x, -1)",
    "remat": "write plugrad.checkpoint(function)",
    "rint": "write plugrad.round(x)",
    "scalar": "write plugrad.asarray(number)",
    "scatter": "write x[key] = value, or plugrad.scatter_nd(positions, updates, shape)",
    "scatter_add": "write x[key] += value, or plugrad.unsorted_segment_sum(x, positions, n)",
    "segment_sum": "write plugrad.unsorted_segment_sum(x, positions, n)",
    "set_backend": "write plugrad.use(name)",
    "set_default_device": "write plugrad.use(name)",
    "set_default_dtype": "numbers of Python become float32; write dtype= where tensors are made",
    "sgn": "write plugrad.sign(x)",
    "size": "write x.size",
    "sub": "write plugrad.subtract(x, y)",
    "swapaxes": "write plugrad.permute_dims(x, axes)",
    "swish": "write plugrad.silu(x)",
    "tensor": "write plugrad.asarray(data)",
    "transpose": "write plugrad.permute_dims(x, axes), or x.T for a matrix",
    "truncate": "write plugrad.trunc(x)",
    "unsqueeze": "write plugrad.expand_dims(x, axis=0)",
    "vdot": "write plugrad.vecdot(x, y)",
    "view": "write plugrad.reshape(x, shape)",
    "vstack": "write plugrad.concat([x, y], axis=0)",
}
"""By a name of other frameworks: what to write instead, where no name of plugrad is similar."""


def exporting_namespace(name: str) -> str | None:
    """Return the dotted name of the public module that has a function or class, or None.

    >>> exporting_namespace("cholesky"), exporting_namespace("exp"), exporting_namespace("qqqq")
    ('plugrad.linalg', 'plugrad', None)
    """
    for namespace in PUBLIC_NAMESPACES:
        module = import_lazily(f"plugrad.{namespace}".removesuffix("."))
        if name in dir(module) and callable(getattr(module, name)):
            return module.__name__
    return None


def raise_missing_export(namespace: ModuleType, name: str) -> NoReturn:
    """Raise the error for a name that a public module of plugrad does not have.

    Raises:
        AttributeError: always; it says what to write instead, which module has the name, or which name is similar.
    """
    hints = MISSING_NAME_HINTS
    key = f"{namespace.__name__}.{name}".removeprefix("plugrad.")
    if key not in hints and not name.startswith("_") and (home := exporting_namespace(name)):
        hints = {key: f"write {home}.{name}"}
    raise_missing_name(namespace, hints, name)
