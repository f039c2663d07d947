"""Random numbers. Their namespace is `plugrad.random`, whose functions are methods of one `Generator`.

Key and counter of a draw come from the host (`plugrad.ops.streams`); kernels make random words and normal numbers of
them on the device, and ops make the other distributions of these (`plugrad.ops.distributions`). So a seed gives the
same random bits on every backend.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import numpy as np

from plugrad.discovery.selection import resolve_backend
from plugrad.errors import ArgumentValueError, DTypeError, OutOfMemory, ShapeError, short_repr
from plugrad.kernels import indexing, movement, random as kernels
from plugrad.ops import distributions
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast, with_attributes
from plugrad.ops.attributes import check_finite, check_flag, check_integer, check_real
from plugrad.ops.binary import minimum
from plugrad.ops.creation import full
from plugrad.ops.dtypes import requested_dtype
from plugrad.ops.streams import ALGORITHM_NAME, RandomStream, check_state, key_of_seed
from plugrad.types.dtype import (
    HALVES,
    DType,
    as_dtype,
    bool_,
    float32,
    float64,
    int32,
    int64,
    string,
)
from plugrad.types.shapes import as_shape, count_elements, normalize_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import Shape, ShapeLike

DrawParameters = ParamSpec("DrawParameters")
"""The parameters of a method that draws random numbers."""
DrawResult = TypeVar("DrawResult")
"""The result of a method that draws random numbers."""
MAX_NUMBERS_PER_DRAW: Final = 2**59
"""The most numbers that one call draws: with 16 bytes each, they fill a 63-bit address space."""
MAX_SPAWNED_GENERATORS: Final = 10**6
"""The largest number of generators that one call makes; more would take minutes."""


def name_method_in_out_of_memory(
    method: Callable[DrawParameters, DrawResult],
) -> Callable[DrawParameters, DrawResult]:
    """Return a method that draws, whose `OutOfMemory` names it and not the kernel that it calls."""

    @wraps(method)
    def draw(*args: DrawParameters.args, **kwargs: DrawParameters.kwargs) -> DrawResult:
        """Call the method; an `OutOfMemory` from a kernel gets the method's name."""
        try:
            return method(*args, **kwargs)
        except OutOfMemory as error:
            if str(error).startswith(f"{method.__name__}: "):
                raise
            raise OutOfMemory(f"{method.__name__}: {error}; draw fewer numbers at once") from error

    return draw


class Generator:
    """A source of random numbers; the same seed gives the same numbers.

    >>> a, b = plugrad.random.Generator(0), plugrad.random.Generator(0)
    >>> a.normal((2, 3)).tolist() == b.normal((2, 3)).tolist()
    True

    Every method that draws returns a tensor of the given shape. Its ``dtype=`` is float32 unless the
    method says otherwise, and its ``device=`` is where the tensor lives: by default on the active
    backend. A dtype that this backend does not have raises UnsupportedDtype, and a shape that is not
    one ShapeError.

    Each draw takes a part of the sequence that depends on the shape and the dtype only. Numbers of float64 have more
    random bits, and are others than those of float32.

    Threads may share a generator, but which thread draws which numbers is then not determined;
    `spawn` a generator for each thread instead. Generators can be pickled.

    Args:
        seed: an integer, 0 or more; None takes a fresh seed from the operating system. A function
            without arguments that returns an integer is asked at each draw. So a traced program takes
            the seed of each call, and not that of its first one.

    Raises:
        ArgumentError: the seed is not an integer.
        ArgumentValueError: the seed is negative.
    """

    __slots__ = ("_stream",)

    def __init__(self, seed: int | Callable[[], int] | None = None) -> None:
        """Start at the first number of a seed."""
        self._stream: RandomStream = RandomStream()
        self.seed(seed)

    def seed(self, seed: int | Callable[[], int] | None = None) -> None:
        """Restart the sequence of a seed; None takes a fresh seed from the operating system.

        >>> plugrad.random.seed(0)

        Raises:
            ArgumentError: the seed is not an integer.
            ArgumentValueError: the seed is negative.
        """
        if seed is None or not callable(seed):
            self._stream.restart(None if seed is None else _key_of_seed(seed))
        else:
            self._stream.restart(lambda: _key_of_seed(seed()))

    @property
    def state(self) -> dict[str, Any]:
        """The position in the sequence of numbers; a generator to which it is assigned continues from there.

        It has the name of the algorithm, a key below ``2**64`` and a counter below ``2**128``.

        >>> generator = plugrad.random.Generator(1)
        >>> generator.state = plugrad.random.default.state

        Raises:
            ArgumentValueError: the value that is assigned is not a state.
        """
        key, counter = self._stream.take_blocks(0)
        return {"algorithm": ALGORITHM_NAME, "key": key, "counter": counter}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._stream.restart(*check_state(state))

    def __getstate__(self) -> dict[str, Any]:
        return self.state

    def __setstate__(self, state: dict[str, Any]) -> None:
        position = check_state(state)
        self._stream = RandomStream()
        self._stream.restart(*position)

    def spawn(self, count: int) -> list[Generator]:
        """Return `count` generators whose numbers are independent of each other and of this generator's.

        >>> first, second = plugrad.random.Generator(0).spawn(2)

        Their keys are the next numbers of this generator.

        Raises:
            ArgumentError: the count is not an integer.
            ArgumentValueError: the count is negative, or greater than a million.
        """
        count = check_integer(count, "spawn", "count", least=0, most=MAX_SPAWNED_GENERATORS)
        children = [Generator() for _ in range(count)]
        for child, stream in zip(children, self._stream.spawn(count), strict=True):
            child._stream = stream
        return children

    def _draw_bits(self, shape: Shape, backend: Backend) -> Tensor:
        """Draw a random word for each element of a shape."""
        return with_attributes(kernels.random_bits, draw_state(self, shape, backend), shape=shape)

    def _draw_unit_uniform(self, shape: Shape, dtype: DType, backend: Backend) -> Tensor:
        """Draw numbers from 0 up to but without 1, in float64 or in float32."""
        words = self._draw_bits(shape, backend)
        if dtype is float64:
            return distributions.scale_pairs_to_unit(words, self._draw_bits(shape, backend))
        return distributions.scale_to_unit(words)

    def _draw_positive_uniform(self, shape: Shape, dtype: DType, backend: Backend) -> Tensor:
        """Draw numbers above 0 and at most 1, in float64 or in float32."""
        return self._draw_unit_uniform(shape, dtype, backend) + (
            2.0**-54 if dtype is float64 else 2.0**-25
        )

    def _draw_standard_normal(self, shape: Shape, dtype: DType, backend: Backend) -> Tensor:
        """Draw normal numbers in float64 or in float32."""
        count = count_elements(shape)
        if dtype is float64:
            half = (-(-count // 2),)
            numbers = distributions.box_muller(
                self._draw_positive_uniform(half, dtype, backend),
                self._draw_unit_uniform(half, dtype, backend),
            )
            if count % 2:
                numbers = movement.slice(numbers, begin=(0,), size=(count,))
            return movement.reshape(numbers, shape=shape)
        state = self._stream.next_state(count, backend)
        return with_attributes(kernels.random_normal, state, shape=shape)

    # --- floating numbers ------------------------------------------------------------------------

    @name_method_in_out_of_memory
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
        bottom, top = np.asarray([low, high], wanted.numpy)
        if not (np.isfinite(bottom) and np.isfinite(top)):
            raise ArgumentValueError(f"uniform: low={low} and high={high} must fit {wanted}")
        unit = self._draw_unit_uniform(sizes, wanted, backend)
        with np.errstate(over="ignore"):
            is_wide = not np.isfinite(np.asarray(high - low, unit.dtype.numpy))
        values = unit * (high / 2 - low / 2) + low / 2 if is_wide else unit * (high - low)
        if is_wide:
            values = values * 2
        elif low:
            values = values + low
        values = cast(values, wanted)
        # Products with a width are below it. Other rounding may reach the upper bound, which is excluded.
        if low or wanted in HALVES:
            values = minimum(values, np.nextafter(top, bottom).item())
        return values

    @name_method_in_out_of_memory
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
        return cast(self._draw_standard_normal(sizes, _computation_dtype(wanted), backend), wanted)

    @name_method_in_out_of_memory
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
        numbers = self._draw_standard_normal(sizes, _computation_dtype(wanted), backend)
        return cast(_scale_and_shift(numbers, mean, std), wanted)

    @name_method_in_out_of_memory
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

        They are values of the quantile function of that distribution at uniform numbers.

        Raises:
            ArgumentError: `mean` or `std` is not a number.
            ArgumentValueError: `mean` or `std` is not finite, or `std` is negative.
            DTypeError: the dtype is not floating.
        """
        mean = check_finite(mean, "truncated_normal", "mean")
        std = check_finite(std, "truncated_normal", "std", least=0)
        sizes, wanted, backend = _floating_arguments("truncated_normal", shape, dtype, device)
        if wanted is float64:
            rank = (self._draw_unit_uniform(sizes, wanted, backend) - 0.5) * 2 + 2.0**-53
        else:
            rank = distributions.scale_to_symmetric(self._draw_bits(sizes, backend))
        numbers = distributions.truncated_normal_quantile(rank)
        return cast(_scale_and_shift(numbers, mean, std), wanted)

    @name_method_in_out_of_memory
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
        dtype = _computation_dtype(wanted)

        count = count_elements(sizes)

        def draw_normal(count: int) -> Tensor:
            """Return `count` normal numbers."""
            return self._draw_standard_normal((count,), dtype, backend)

        def draw_positive(count: int) -> Tensor:
            """Return `count` uniform numbers above 0 and at most 1."""
            return self._draw_positive_uniform((count,), dtype, backend)

        greater = alpha if alpha >= 1 else alpha + 1
        numbers = distributions.sample_gamma(greater, count, draw_normal, draw_positive)
        if alpha < 1:
            numbers = numbers * distributions.small_shape_gamma_factor(alpha, draw_positive(count))
        return cast(movement.reshape(numbers / beta, shape=sizes), wanted)

    # --- integers and choices --------------------------------------------------------------------

    @name_method_in_out_of_memory
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
        backend = resolve_backend(device)
        wanted = int32 if dtype is None else requested_dtype(as_dtype(dtype), backend)
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
        span = high - low
        # The dtype does not change the numbers, unless there are too many for int32.
        kind = int32 if span <= 2**32 else int64
        count = 2 if span & (span - 1) else 1
        words = [self._draw_integers(sizes, kind, backend) for _ in range(count)]
        above = distributions.scale_to_integers(words, span)
        if wanted.itemsize == 8 and kind is int32:
            above = cast(above, int64)
            if span > 2**31:
                above = above & 0xFFFFFFFF
        return cast(distributions.add_modulo(above, low), wanted)

    def _draw_integers(self, shape: Shape, dtype: DType, backend: Backend) -> Tensor:
        """Draw integers with all bits of int32 or int64."""
        words = self._draw_bits(shape, backend)
        if dtype is int32:
            return words
        others = self._draw_bits(shape, backend)
        return cast(words, int64) << 32 | cast(others, int64) & 0xFFFFFFFF

    @name_method_in_out_of_memory
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
        backend = resolve_backend(device)
        wanted = bool_ if dtype is None else requested_dtype(as_dtype(dtype), backend)
        if wanted is string:
            raise DTypeError("bernoulli: dtype=string does not hold numbers; use bool or int32")
        sizes = _check_shape("bernoulli", shape)
        # A word is uniform among 2**32 numbers, from -2**31 on.
        below = round(p * 2.0**32)
        if below == 0:
            return full(sizes, False, dtype=wanted, device=backend)
        return cast(self._draw_bits(sizes, backend) <= below - 2**31 - 1, wanted)

    @name_method_in_out_of_memory
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
            return self._draw_permutation(count, resolve_backend(device))
        x = as_tensor(x, "permutation", backend=resolve_backend(device))
        axis = normalize_axis(axis, x.ndim, name="permutation: axis")
        return indexing.gather(x, self._draw_permutation(x.shape[axis], x.backend), axis=axis)

    def _draw_permutation(self, size: int, backend: Backend) -> Tensor:
        """Draw positions below a size in random order."""
        order = distributions.argsort_words(self._draw_bits((size,), backend))
        for _ in range(1, distributions.required_shuffles(size)):
            again = distributions.argsort_words(self._draw_bits((size,), backend))
            order = indexing.gather(order, again, axis=0)
        return order

    @name_method_in_out_of_memory
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
        samples = check_integer(num_samples, "multinomial", "num_samples", least=0)
        drawn = kernels.multinomial(
            rows,
            self._stream.next_state(rows.shape[0] * samples, rows.backend),
            num_samples=samples,
            normalized=check_flag(normalized, "multinomial", "normalized"),
        )
        return movement.reshape(drawn, shape=drawn.shape[1:]) if x.ndim == 1 else drawn


def _key_of_seed(seed: int) -> int:
    """Return the key of a seed.

    Raises:
        ArgumentError: the seed is not an integer.
        ArgumentValueError: it is negative.
    """
    return key_of_seed(check_integer(seed, "seed", "seed", least=0))


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
    backend = resolve_backend(device)
    return _check_shape(op, shape), requested_dtype(wanted, backend), backend


def _check_shape(op: str, shape: ShapeLike) -> Shape:
    """Return the requested shape as a tuple; raise if it has too many elements for one draw."""
    sizes = as_shape(shape, name=f"{op}: shape")
    if count_elements(sizes) > MAX_NUMBERS_PER_DRAW:
        raise OutOfMemory(
            f"{op}: shape={short_repr(sizes)} has more elements than an address space holds"
        )
    return sizes


def draw_state(generator: Generator, shape: Shape, backend: Backend) -> Tensor:
    """Return the key and the counter from which `RandomBits` makes a random word for each element of a shape."""
    stream = generator._stream  # pyright: ignore[reportPrivateUsage] - not for users of the class
    return stream.next_state(count_elements(shape), backend)


def _computation_dtype(dtype: DType) -> DType:
    """Return the dtype in which random numbers of a floating dtype are computed: float64 or float32."""
    return float64 if dtype is float64 else float32


def _scale_and_shift(numbers: Tensor, mean: float, std: float) -> Tensor:
    """Return standard numbers times `std`, plus `mean`."""
    if std != 1:
        numbers = numbers * std
    return numbers + mean if mean else numbers


default: Final = Generator()
"""The generator from which the functions of `plugrad.random` draw."""

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
