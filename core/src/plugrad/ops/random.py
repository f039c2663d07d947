"""Random numbers. Their namespace is `plugrad.random`, whose functions are methods of one `Generator`.

Numbers are drawn on the host in double precision, by NumPy's generator SFC64 (Doty-Humphrey, 2010),
the fastest that it has, and then copied to the backend. A seed therefore gives the same numbers on every
backend, and in another dtype the same numbers rounded. They may change from one release of NumPy to the next.
"""

from __future__ import annotations

from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import numpy as np

from plugrad.discovery.selection import backend_for
from plugrad.engine.results import tensor_from_host
from plugrad.errors import ArgumentValueError, DTypeError, OutOfMemory, ShapeError, short_repr
from plugrad.host.random import standard_normal as normal_numbers
from plugrad.kernels import indexing, movement, random as kernels
from plugrad.ops.arguments import as_supported_dtype, as_tensor
from plugrad.ops.attributes import check_finite, check_flag, check_integer, check_real
from plugrad.tensor.backend import unsupported_dtype
from plugrad.types.dtype import DType, as_dtype, bool_, float32, int32, string
from plugrad.types.shapes import as_shape, count_elements, normalize_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import Shape, ShapeLike

Params = ParamSpec("Params")
Result = TypeVar("Result")
_lock: Final = Lock()
BLOCK_NUMBERS: Final = 65_536
MAX_NUMBERS: Final = 2**59
"""The largest number of elements of a tensor: with 16 bytes each they fill a 63-bit address space."""


def report_out_of_memory(method: Callable[Params, Result]) -> Callable[Params, Result]:
    """Return a method that raises `OutOfMemory` where NumPy raises MemoryError."""

    @wraps(method)
    def drawn(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except OutOfMemory:
            raise
        except MemoryError as error:
            raise OutOfMemory(f"{method.__name__}: {error}; draw fewer numbers at once") from error

    return drawn


MAX_SPAWNED: Final = 10**6
"""The largest number of generators that one call makes; more would take minutes."""


class Generator:
    """A source of random numbers; the same seed gives the same numbers.

    >>> a, b = plugrad.random.Generator(0), plugrad.random.Generator(0)
    >>> a.normal((2, 3)).tolist() == b.normal((2, 3)).tolist()
    True

    Every method that draws returns a tensor of the given shape. Its ``dtype=`` is float32 unless the
    method says otherwise, and its ``device=`` is where the tensor lives: by default on the active
    backend. A dtype that this backend does not have raises UnsupportedDtype, and a shape that is not
    one ShapeError.

    Threads may share a generator, but which thread draws which numbers is then not determined;
    `spawn` a generator for each thread instead. Generators can be pickled.

    Args:
        seed: an integer, 0 or more; None takes a fresh seed from the operating system.

    Raises:
        ArgumentError: the seed is not an integer.
        ArgumentValueError: the seed is negative.
    """

    __slots__ = ("_seed", "_source")

    def __init__(self, seed: int | None = None) -> None:
        """Start at the first number of a seed."""
        self.seed(seed)

    def seed(self, seed: int | None = None) -> None:
        """Restart the sequence of a seed; None takes a fresh seed from the operating system.

        >>> plugrad.random.seed(0)

        Raises:
            ArgumentError: the seed is not an integer.
            ArgumentValueError: the seed is negative.
        """
        number = None if seed is None else check_integer(seed, "seed", "seed", least=0)
        with _lock:
            self._seed = number
            self._source: np.random.Generator | None = None

    @property
    def _numpy(self) -> np.random.Generator:
        """NumPy's generator, created on first use, because importing it takes time."""
        with _lock:
            if self._source is None:
                self._source = np.random.Generator(np.random.SFC64(self._seed))
            return self._source

    @property
    def state(self) -> dict[str, Any]:
        """The position in the sequence of numbers; a generator to which it is assigned continues from there.

        >>> generator = plugrad.random.Generator(1)
        >>> generator.state = plugrad.random.default.state
        """
        return dict(self._numpy.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        try:
            self._numpy.bit_generator.state = state
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise ArgumentValueError(
                f"Generator: state={short_repr(state)} is not the state of a generator: {error}"
            ) from error

    def spawn(self, count: int) -> list[Generator]:
        """Return `count` generators whose numbers are independent of each other and of this generator's.

        >>> first, second = plugrad.random.Generator(0).spawn(2)

        Raises:
            ArgumentError: the count is not an integer.
            ArgumentValueError: the count is negative, or greater than a million.
        """
        count = check_integer(count, "spawn", "count", least=0, most=MAX_SPAWNED)
        children = [Generator(0) for _ in range(count)]
        for child, source in zip(children, self._numpy.spawn(count), strict=True):
            child._source = source
        return children

    def _fill_uniform(self, out: NDArray[Any]) -> None:
        self._numpy.random(out=out)

    def _fill_normal(self, out: NDArray[Any]) -> None:
        normal_numbers(self._numpy, out)

    # --- floating numbers ------------------------------------------------------------------------

    @report_out_of_memory
    def uniform(
        self,
        shape: ShapeLike,
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random numbers, uniformly distributed from `low` up to but without `high`.

        >>> x = plugrad.random.uniform((2, 3), -1, 1)
        >>> x.shape, x.dtype
        ((2, 3), plugrad.float32)

        Raises:
            ArgumentError: a bound is not a number.
            ArgumentValueError: a bound is not finite, or `low` is greater than `high`.
            DTypeError: the dtype is not floating; `integers` draws integers.
        """
        low = check_finite(low, "uniform", "low")
        high = check_finite(high, "uniform", "high")
        if low > high:
            raise ArgumentValueError(f"uniform: low={low} must be at most high={high}")
        sizes, wanted, backend = _floating_arguments("uniform", shape, dtype, device)
        # Rounding may reach the upper bound, which is excluded.
        bottom, top = np.asarray([low, high], str(wanted))
        below = np.nextafter(top, bottom)

        def bounded(unit: NDArray[Any], out: NDArray[Any]) -> None:
            unit *= high - low
            unit += low
            out[...] = unit
            np.minimum(out, below, out=out)

        return _draw_in_blocks(self._fill_uniform, bounded, sizes, wanted, backend)

    @report_out_of_memory
    def standard_normal(
        self,
        shape: ShapeLike,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random numbers of the normal distribution with mean 0 and standard deviation 1.

        >>> plugrad.random.standard_normal((2, 3)).shape
        (2, 3)

        Raises:
            DTypeError: the dtype is not floating.
        """
        sizes, wanted, backend = _floating_arguments("standard_normal", shape, dtype, device)
        return _draw_in_blocks(self._fill_normal, _round_to_dtype, sizes, wanted, backend)

    @report_out_of_memory
    def normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random numbers of the normal distribution with a mean and the standard deviation `std`.

        >>> plugrad.random.normal((2, 3), mean=5.0, std=0.1).shape
        (2, 3)

        Raises:
            ArgumentError: `mean` or `std` is not a number.
            ArgumentValueError: `mean` or `std` is not finite, or `std` is negative.
            DTypeError: the dtype is not floating.
        """
        mean = check_finite(mean, "normal", "mean")
        std = check_finite(std, "normal", "std", least=0)
        sizes, wanted, backend = _floating_arguments("normal", shape, dtype, device)

        def scaled(values: NDArray[Any], out: NDArray[Any]) -> None:
            if std != 1:
                values *= std
            if mean:
                values += mean
            out[...] = values

        return _draw_in_blocks(self._fill_normal, scaled, sizes, wanted, backend)

    @report_out_of_memory
    def truncated_normal(
        self,
        shape: ShapeLike,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random numbers of a normal distribution that are at most two standard deviations away from the mean.

        >>> x = plugrad.random.truncated_normal((100,))
        >>> bool(plugrad.all(plugrad.abs(x) <= 2))
        True

        Numbers further away are drawn again.

        Raises:
            ArgumentError: `mean` or `std` is not a number.
            ArgumentValueError: `mean` or `std` is not finite, or `std` is negative.
            DTypeError: the dtype is not floating.
        """
        mean = check_finite(mean, "truncated_normal", "mean")
        std = check_finite(std, "truncated_normal", "std", least=0)
        sizes, wanted, backend = _floating_arguments("truncated_normal", shape, dtype, device)

        def truncated(numbers: NDArray[Any], out: NDArray[Any]) -> None:
            while (far := np.flatnonzero(np.abs(numbers) > 2)).size:
                again = np.empty(far.size)
                self._fill_normal(again)
                numbers[far] = again
            numbers *= std
            numbers += mean
            out[...] = numbers

        return _draw_in_blocks(self._fill_normal, truncated, sizes, wanted, backend)

    @report_out_of_memory
    def gamma(
        self,
        shape: ShapeLike,
        alpha: float,
        beta: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random numbers of the gamma distribution with shape `alpha` and rate `beta`, whose mean is ``alpha / beta``.

        >>> plugrad.random.gamma((2, 3), alpha=2.0).shape
        (2, 3)

        Raises:
            ArgumentError: `alpha` or `beta` is not a number.
            ArgumentValueError: `alpha` or `beta` is not positive or not finite.
            DTypeError: the dtype is not floating.
        """
        alpha = check_finite(alpha, "gamma", "alpha")
        beta = check_finite(beta, "gamma", "beta")
        if alpha <= 0 or beta <= 0:
            raise ArgumentValueError(f"gamma: alpha={alpha} and beta={beta} must be above 0")
        sizes, wanted, backend = _floating_arguments("gamma", shape, dtype, device)
        return _to_tensor(self._numpy.standard_gamma(alpha, sizes) / beta, wanted, backend)

    # --- integers and choices --------------------------------------------------------------------

    @report_out_of_memory
    def integers(
        self,
        shape: ShapeLike,
        low: int,
        high: int,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random integers, uniformly distributed from `low` up to but without `high`; int32 by default.

        >>> x = plugrad.random.integers((100,), -2, 3)
        >>> int(plugrad.min(x)), int(plugrad.max(x))
        (-2, 2)

        Raises:
            ArgumentError: a bound is not an integer.
            ArgumentValueError: `low` is not less than `high`, or they do not fit the dtype.
            DTypeError: the dtype is not an integer dtype.
        """
        wanted = int32 if dtype is None else as_dtype(dtype)
        if not wanted.is_integer:
            raise DTypeError(f"integers: dtype={wanted} must be an integer dtype, such as int32")
        low = check_integer(low, "integers", "low")
        high = check_integer(high, "integers", "high")
        limits = np.iinfo(str(wanted))
        if not limits.min <= low < high <= limits.max + 1:
            raise ArgumentValueError(
                f"integers: low={short_repr(low)} must be less than high={short_repr(high)}, and all numbers between "
                f"fit {wanted}"
            )
        sizes = _check_shape("integers", shape)
        backend = _resolve_backend(wanted, device)
        # Drawn in the widest type and from 0 on, so that the dtype does not change the numbers.
        # Addition and conversion are modulo 2**64, so negative numbers come out right.
        above = self._numpy.integers(
            0, high - low - 1, count_elements(sizes), "uint64", endpoint=True
        )
        values = (above + np.uint64(low % 2**64)).astype(str(wanted))
        return tensor_from_host(values.reshape(sizes), backend)

    @report_out_of_memory
    def bernoulli(
        self,
        shape: ShapeLike,
        p: float = 0.5,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Random bools, True with probability `p`; in another dtype than bool the numbers 1 and 0.

        >>> plugrad.random.bernoulli((3,), p=1.0)
        tensor([ True,  True,  True], dtype=bool)

        Raises:
            ArgumentError: `p` is not a number.
            ArgumentValueError: `p` is not between 0 and 1.
            DTypeError: the dtype is string.
        """
        p = check_real(p, "bernoulli", "p", least=0, most=1)
        wanted = bool_ if dtype is None else as_dtype(dtype)
        if wanted is string:
            raise DTypeError("bernoulli: dtype=string does not hold numbers; use bool or int32")
        sizes = _check_shape("bernoulli", shape)
        backend = _resolve_backend(wanted, device)
        return _to_tensor(self._numpy.random(sizes) < p, wanted, backend)

    @report_out_of_memory
    def permutation(
        self, x: TensorLike, *, axis: int = 0, device: DeviceLike | None = None
    ) -> Tensor:
        """The slices of x along an axis in random order; for an integer x the int32 numbers below it.

        >>> plugrad.sum(plugrad.random.permutation(5))
        tensor(10, dtype=int32)

        The result has the shape and the dtype of x. Gradients flow back to the permuted slices.

        Args:
            x: a tensor, or an integer.
            axis: the axis along which the slices lie.
            device: where the result lives, unless x is a tensor already.

        Raises:
            AxisError: the axis is out of range.
            ArgumentValueError: an integer x is negative, or greater than ``2**31``.
        """
        if isinstance(x, int | np.integer):
            count = check_integer(x, "permutation", "x", least=0, most=2**31)
            return _to_tensor(
                self._numpy.permutation(count), int32, _resolve_backend(int32, device)
            )
        x = as_tensor(x, "permutation", backend=backend_for(device))
        axis = normalize_axis(axis, x.ndim, name="permutation: axis")
        order = _to_tensor(self._numpy.permutation(x.shape[axis]), int32, x.backend)
        return indexing.gather(x, order, axis=axis)

    @report_out_of_memory
    def multinomial(
        self, logits: TensorLike, num_samples: int, *, normalized: bool = False
    ) -> Tensor:
        """Random classes, as int32, drawn with the probabilities ``softmax(logits)``.

        >>> plugrad.random.multinomial([[0.0, 0.0, 100.0], [100.0, 0.0, 0.0]], 2)
        tensor([[2, 2],
                [0, 0]], dtype=int32)

        The shape is (num_samples,), or (rows, num_samples) for several rows. Classes are drawn on the
        backend of the logits. The borders between classes are rounded there, so that another backend
        may occasionally draw a neighbouring class.

        Args:
            logits: a row with one number for each class, or several rows.
            num_samples: the number of classes to draw for each row.
            normalized: whether the logits are probabilities instead, which need not add up to 1.

        Raises:
            ShapeError: the logits do not have one or two axes, or there are no classes.
            ArgumentError: `num_samples` is not an integer, or `normalized` not a bool.
            ArgumentValueError: `num_samples` is negative.
            DTypeError: the logits hold complex numbers or strings.
        """
        x = as_supported_dtype(logits, kernels.multinomial, "multinomial", "logits")
        if x.ndim not in (1, 2):
            raise ShapeError(
                f"multinomial: logits must have one or two axes; their shape is {x.shape}"
            )
        rows = movement.reshape(x, shape=(1, *x.shape)) if x.ndim == 1 else x
        seed = int(self._numpy.integers(0, 2**64 - 1, dtype="uint64", endpoint=True))
        drawn = kernels.multinomial(
            rows,
            num_samples=check_integer(num_samples, "multinomial", "num_samples", least=0),
            seed=seed,
            normalized=check_flag(normalized, "multinomial", "normalized"),
        )
        return movement.reshape(drawn, shape=drawn.shape[1:]) if x.ndim == 1 else drawn


def _floating_arguments(
    op: str, shape: ShapeLike, dtype: DTypeLike | None, device: DeviceLike | None
) -> tuple[Shape, DType, Backend]:
    """Return the shape, the dtype and the backend of floating numbers."""
    wanted = float32 if dtype is None else as_dtype(dtype)
    if wanted.kind != "floating":
        raise DTypeError(
            f"{op}: dtype={wanted} must be floating; draw floating numbers and convert them with "
            "astype, or draw integers with plugrad.random.integers"
        )
    return _check_shape(op, shape), wanted, _resolve_backend(wanted, device)


def _check_shape(op: str, shape: ShapeLike) -> Shape:
    sizes = as_shape(shape, name=f"{op}: shape")
    if count_elements(sizes) > MAX_NUMBERS:
        raise OutOfMemory(f"{op}: shape={sizes} has more elements than an address space holds")
    return sizes


def _resolve_backend(dtype: DType, device: DeviceLike | None) -> Backend:
    """Return the backend of a device.

    The check of the dtype comes before anything is drawn.

    Raises:
        UnsupportedDtype: the backend does not have the dtype.
    """
    backend = backend_for(device)
    if dtype not in backend.dtypes():
        raise unsupported_dtype(dtype, backend)
    return backend


def _draw_in_blocks(
    draw: Callable[[NDArray[Any]], None],
    finish: Callable[[NDArray[Any], NDArray[Any]], None],
    sizes: Shape,
    dtype: DType,
    backend: Backend,
) -> Tensor:
    """Draw numbers block by block, so that the passes over a block of doubles stay in the cache.

    Args:
        draw: fills an array of doubles with the next numbers.
        finish: changes these, and writes them to an array of the result's dtype.
        sizes: the shape of the result.
        dtype: its dtype.
        backend: where it lives.
    """
    values = np.empty(sizes, str(dtype))
    flat = values.reshape(-1)
    numbers = np.empty(min(BLOCK_NUMBERS, flat.size))
    for start in range(0, flat.size, BLOCK_NUMBERS):
        out = flat[start : start + BLOCK_NUMBERS]
        drawn = numbers[: out.size]
        draw(drawn)
        finish(drawn, out)
    return tensor_from_host(values, backend)


def _round_to_dtype(numbers: NDArray[Any], out: NDArray[Any]) -> None:
    out[...] = numbers


def _to_tensor(values: NDArray[Any], dtype: DType, backend: Backend) -> Tensor:
    return tensor_from_host(np.asarray(values, str(dtype)), backend)


default: Final = Generator()
"""The generator of the functions below."""

seed: Final = default.seed
uniform: Final = default.uniform
standard_normal: Final = default.standard_normal
normal: Final = default.normal
truncated_normal: Final = default.truncated_normal
gamma: Final = default.gamma
integers: Final = default.integers
bernoulli: Final = default.bernoulli
permutation: Final = default.permutation
multinomial: Final = default.multinomial
