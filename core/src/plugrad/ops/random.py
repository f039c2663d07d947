"""Random numbers. Their namespace is `plugrad.random`, whose functions are methods of one `Generator`.

Numbers are drawn on the host in double precision, by NumPy's generator Philox, and then sent to the
backend. So a seed gives the same numbers on every backend, and in another dtype the same ones
rounded. From one release of NumPy to the next the numbers may change.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.discovery.selection import backend_for
from plugrad.engine.results import tensor_from
from plugrad.errors import ArgumentValueError, DTypeError, OutOfMemory, ShapeError
from plugrad.kernels import indexing, movement, random as kernels
from plugrad.ops.arguments import as_tensor, coerced
from plugrad.ops.attributes import finite, flag, real, whole
from plugrad.tensor.backend import unsupported
from plugrad.types.dtype import DType, as_dtype, bool_, float32, int32, string
from plugrad.types.shapes import axis_of, shape_of, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import Shape

_lock: Final = Lock()
LARGEST: Final = 2**59


class Generator:
    """A source of random numbers, which are the same whenever the seed is the same.

    >>> a, b = plugrad.random.Generator(0), plugrad.random.Generator(0)
    >>> a.normal((2, 3)).tolist() == b.normal((2, 3)).tolist()
    True

    Threads may share a generator, but who gets which numbers is then a matter of chance: `spawn` one
    for each of them instead. Generators can be pickled.

    Args:
        seed: a whole number, 0 or more; None takes a fresh one from the operating system.

    Raises:
        ArgumentError: the seed is no whole number.
        ArgumentValueError: the seed is negative.
    """

    __slots__ = ("_seed", "_source")

    def __init__(self, seed: int | None = None) -> None:
        """Start with the first numbers of a seed."""
        self.seed(seed)

    def seed(self, seed: int | None = None) -> None:
        """Start again, with the first numbers of a seed; None takes a fresh one from the operating system.

        >>> plugrad.random.seed(0)

        Raises:
            ArgumentError: the seed is no whole number.
            ArgumentValueError: the seed is negative.
        """
        number = None if seed is None else whole(seed, "seed", "seed", least=0)
        with _lock:
            self._seed = number
            self._source: np.random.Generator | None = None

    @property
    def _numpy(self) -> np.random.Generator:
        """NumPy's generator, made when it is first needed: importing it takes time."""
        with _lock:
            if self._source is None:
                self._source = np.random.Generator(np.random.Philox(self._seed))
            return self._source

    @property
    def state(self) -> dict[str, Any]:
        """Where among its numbers the generator is; another one that is assigned it goes on from there.

        >>> generator = plugrad.random.Generator(1)
        >>> generator.state = plugrad.random.default.state
        """
        return dict(self._numpy.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._numpy.bit_generator.state = state

    def spawn(self, count: int) -> list[Generator]:
        """Return generators whose numbers do not depend on each other, nor on this one's.

        >>> first, second = plugrad.random.Generator(0).spawn(2)
        """
        children = [Generator(0) for _ in range(count)]
        for child, source in zip(children, self._numpy.spawn(count), strict=True):
            child._source = source
        return children

    # --- floating numbers ------------------------------------------------------------------------

    def uniform(
        self,
        shape: int | Sequence[int],
        low: float = 0.0,
        high: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers from `low` to `high`, without `high`, all equally likely.

        >>> x = plugrad.random.uniform((2, 3), -1, 1)
        >>> x.shape, x.dtype
        ((2, 3), plugrad.float32)

        Raises:
            ArgumentValueError: the bounds are not finite, or `low` is more than `high`.
            DTypeError: the dtype is not floating; whole numbers come from `integers`.
        """
        low, high = finite(low, "uniform", "low"), finite(high, "uniform", "high")
        if low > high:
            raise ArgumentValueError(f"uniform: low={low} must be at most high={high}")
        sizes, wanted, backend = _floating("uniform", shape, dtype, device)
        unit = self._numpy.random(sizes)
        values = np.asarray(low + (high - low) * unit, str(wanted))
        # Rounding reaches the bound, from half a unit in the last place.
        bottom, top = np.asarray([low, high], str(wanted))
        return tensor_from(np.minimum(values, np.nextafter(top, bottom)), backend)

    def standard_normal(
        self,
        shape: int | Sequence[int],
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of the normal distribution with mean 0 and standard deviation 1.

        >>> plugrad.random.standard_normal((2, 3)).shape
        (2, 3)

        Raises:
            DTypeError: the dtype is not floating.
        """
        sizes, wanted, backend = _floating("standard_normal", shape, dtype, device)
        return _sent(self._numpy.standard_normal(sizes), wanted, backend)

    def normal(
        self,
        shape: int | Sequence[int],
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of a normal distribution.

        >>> plugrad.random.normal((2, 3), mean=5.0, std=0.1).shape
        (2, 3)

        Raises:
            ArgumentValueError: `std` is negative, or not finite, or `mean` is not.
            DTypeError: the dtype is not floating.
        """
        mean, std = finite(mean, "normal", "mean"), finite(std, "normal", "std", least=0)
        sizes, wanted, backend = _floating("normal", shape, dtype, device)
        return _sent(mean + std * self._numpy.standard_normal(sizes), wanted, backend)

    def truncated_normal(
        self,
        shape: int | Sequence[int],
        mean: float = 0.0,
        std: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of a normal distribution that are at most two standard deviations away from the mean.

        >>> x = plugrad.random.truncated_normal((100,))
        >>> bool(plugrad.all(plugrad.abs(x) <= 2))
        True

        Numbers further away are drawn again.

        Raises:
            ArgumentValueError: `std` is negative, or not finite, or `mean` is not.
            DTypeError: the dtype is not floating.
        """
        mean = finite(mean, "truncated_normal", "mean")
        std = finite(std, "truncated_normal", "std", least=0)
        sizes, wanted, backend = _floating("truncated_normal", shape, dtype, device)
        values = self._numpy.standard_normal(size_of(sizes))
        while (far := np.flatnonzero(np.abs(values) > 2)).size:
            values[far] = self._numpy.standard_normal(far.size)
        return _sent((mean + std * values).reshape(sizes), wanted, backend)

    def gamma(
        self,
        shape: int | Sequence[int],
        alpha: float,
        beta: float = 1.0,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Numbers of a gamma distribution with the shape `alpha` and the rate `beta`: their mean is ``alpha / beta``.

        >>> plugrad.random.gamma((2, 3), alpha=2.0).shape
        (2, 3)

        Raises:
            ArgumentValueError: `alpha` or `beta` is not above 0, or not finite.
            DTypeError: the dtype is not floating.
        """
        alpha, beta = finite(alpha, "gamma", "alpha"), finite(beta, "gamma", "beta")
        if alpha <= 0 or beta <= 0:
            raise ArgumentValueError(f"gamma: alpha={alpha} and beta={beta} must be above 0")
        sizes, wanted, backend = _floating("gamma", shape, dtype, device)
        return _sent(self._numpy.standard_gamma(alpha, sizes) / beta, wanted, backend)

    # --- whole numbers and choices ---------------------------------------------------------------

    def integers(
        self,
        shape: int | Sequence[int],
        low: int,
        high: int,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """Whole numbers from `low` to `high`, without `high`, all equally likely; int32 by default.

        >>> x = plugrad.random.integers((100,), -2, 3)
        >>> int(plugrad.min(x)), int(plugrad.max(x))
        (-2, 2)

        Raises:
            ArgumentValueError: `low` is not less than `high`, or they do not fit the dtype.
            DTypeError: the dtype does not hold whole numbers.
        """
        wanted = int32 if dtype is None else as_dtype(dtype)
        if not wanted.is_integer:
            raise DTypeError(
                f"integers: dtype={wanted} must be one of whole numbers, such as int32"
            )
        low, high = whole(low, "integers", "low"), whole(high, "integers", "high")
        limits = np.iinfo(str(wanted))
        if not limits.min <= low < high <= limits.max + 1:
            raise ArgumentValueError(
                f"integers: low={low} must be less than high={high}, and all numbers between "
                f"fit {wanted}"
            )
        sizes, backend = _shape("integers", shape), _home(wanted, device)
        # In the widest type and from 0 on, so that the dtype does not change the numbers; adding
        # and narrowing go modulo 2**64, as negative numbers do.
        above = self._numpy.integers(0, high - low - 1, size_of(sizes), "uint64", endpoint=True)
        values = (above + np.uint64(low % 2**64)).astype(str(wanted))
        return tensor_from(values.reshape(sizes), backend)

    def bernoulli(
        self,
        shape: int | Sequence[int],
        p: float = 0.5,
        *,
        dtype: DTypeLike | None = None,
        device: DeviceLike | None = None,
    ) -> Tensor:
        """True with probability `p`, else False; in another dtype than bool 1 and 0.

        >>> plugrad.random.bernoulli((3,), p=1.0)
        tensor([ True,  True,  True], dtype=bool)

        Raises:
            ArgumentValueError: `p` is not between 0 and 1.
        """
        p = real(p, "bernoulli", "p", least=0, most=1)
        wanted = bool_ if dtype is None else as_dtype(dtype)
        if wanted is string:
            raise DTypeError("bernoulli: dtype=string holds no numbers; take bool or int32")
        sizes, backend = _shape("bernoulli", shape), _home(wanted, device)
        return _sent(self._numpy.random(sizes) < p, wanted, backend)

    def permutation(
        self, x: int | TensorLike, *, axis: int = 0, device: DeviceLike | None = None
    ) -> Tensor:
        """The parts of x along an axis in random order; for a whole number the numbers below it.

        >>> plugrad.sum(plugrad.random.permutation(5))
        tensor(10, dtype=int32)

        Gradients go back through the order.

        Raises:
            AxisError: the axis is out of range.
            ArgumentValueError: the number is negative.
        """
        if isinstance(x, int | np.integer):
            count = whole(x, "permutation", "x", least=0, most=2**31)
            return _sent(self._numpy.permutation(count), int32, _home(int32, device))
        x = as_tensor(x, "permutation", backend=backend_for(device))
        axis = axis_of(axis, x.ndim, name="permutation: axis")
        order = _sent(self._numpy.permutation(x.shape[axis]), int32, x.backend)
        return indexing.gather(x, order, axis=axis)

    def multinomial(
        self, logits: TensorLike, num_samples: int, *, normalized: bool = False
    ) -> Tensor:
        """Numbers of classes, drawn with the probabilities ``softmax(logits)``.

        >>> plugrad.random.multinomial([[0.0, 0.0, 100.0], [100.0, 0.0, 0.0]], 2)
        tensor([[2, 2],
                [0, 0]], dtype=int32)

        They are drawn where the logits live. Borders between classes are rounded there, so that
        another backend may now and then draw a neighbouring class.

        Args:
            logits: one row of classes, or rows of them.
            num_samples: how many for each row.
            normalized: the logits are probabilities instead; they need not add up to 1.

        Raises:
            ShapeError: there are more than two axes, or no classes.
            ArgumentValueError: `num_samples` is negative.
            DTypeError: the logits are not numbers.
        """
        x = coerced(logits, kernels.multinomial, "multinomial", "logits")
        if x.ndim not in (1, 2):
            raise ShapeError(
                f"multinomial: logits must have one axis or two; their shape is {x.shape}"
            )
        rows = movement.reshape(x, shape=(1, *x.shape)) if x.ndim == 1 else x
        seed = int(self._numpy.integers(0, 2**64 - 1, dtype="uint64", endpoint=True))
        drawn = kernels.multinomial(
            rows,
            num_samples=whole(num_samples, "multinomial", "num_samples", least=0),
            seed=seed,
            normalized=flag(normalized, "multinomial", "normalized"),
        )
        return movement.reshape(drawn, shape=drawn.shape[1:]) if x.ndim == 1 else drawn


def _floating(
    op: str, shape: int | Sequence[int], dtype: DTypeLike | None, device: DeviceLike | None
) -> tuple[Shape, DType, Backend]:
    """Return the shape, the dtype and the backend of floating numbers."""
    wanted = float32 if dtype is None else as_dtype(dtype)
    if wanted.kind != "floating":
        raise DTypeError(
            f"{op}: dtype={wanted} must be floating; draw floating numbers and convert them with "
            "astype, or draw whole ones with plugrad.random.integers"
        )
    return _shape(op, shape), wanted, _home(wanted, device)


def _shape(op: str, shape: int | Sequence[int]) -> Shape:
    sizes = shape_of(shape, name=f"{op}: shape")
    if size_of(sizes) > LARGEST:
        raise OutOfMemory(f"{op}: shape={sizes} has more elements than an address can tell apart")
    return sizes


def _home(dtype: DType, device: DeviceLike | None) -> Backend:
    """Return the backend of a device; raise before anything is drawn if it has no such dtype."""
    backend = backend_for(device)
    if dtype not in backend.dtypes():
        raise unsupported(dtype, backend)
    return backend


def _sent(values: NDArray[Any], dtype: DType, backend: Backend) -> Tensor:
    return tensor_from(np.asarray(values, str(dtype)), backend)


default: Final = Generator()
"""The generator of the functions below."""

seed = default.seed
uniform = default.uniform
standard_normal = default.standard_normal
normal = default.normal
truncated_normal = default.truncated_normal
gamma = default.gamma
integers = default.integers
bernoulli = default.bernoulli
permutation = default.permutation
multinomial = default.multinomial
