"""A row of the conformance kit's tables: a kernel, what to feed it, and what NumPy says it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from plugrad.types.dtype import DTYPES, as_dtype, string
from plugrad.types.specs import Shape

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""
DrawFunction = Callable[[np.random.Generator, Shape, str], Array]
"""A function of a random generator, a shape and a dtype, which returns an array."""

STRING_DTYPE: Final = np.dtypes.StringDType()
MAIN_DTYPES: Final = ("float32", "float64", "int32", "bool")
"""The dtypes that programs use most."""
NUMBER_DTYPES: Final = (
    *MAIN_DTYPES,
    *(str(d) for d in DTYPES if d is not string and d not in MAIN_DTYPES),
)
ARITHMETIC_DTYPES: Final = tuple(name for name in NUMBER_DTYPES if name != "bool")
FLOATING_DTYPES: Final = ("float32", "float64", "float16")
INTEGER_DTYPES: Final = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
ROW_DTYPE: Final = "the dtype of the row"
"""A placeholder for the row's own dtype, among the attributes and the dtypes of inputs."""


@dataclass(frozen=True)
class Input:
    """How to draw the elements of an input; it has the row's dtype unless it names one."""

    draw: DrawFunction
    """Returns an array, given a random generator, a shape and a dtype."""
    shape: Shape = (3, 5)
    dtype: str = ROW_DTYPE
    allowed_range: tuple[float, float] = (-np.inf, np.inf)
    """The smallest and the largest number that the contract allows."""


@dataclass(frozen=True)
class Row:
    """One test of a kernel: inputs, attributes, and the expected result."""

    kernel: Kernel[..., Any]
    """The contract of the kernel that the row tests."""
    reference: Callable[..., Any]
    """A function of the inputs, with floats in double precision, that returns the expected array, or a list of them."""
    inputs: Sequence[Input | None] = ()
    """How to draw each input; None for an absent one."""
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The attributes as implementations get them."""
    dtypes: Sequence[str] = ()
    """The dtypes on which the row runs, the most important first; by default all that the kernel accepts."""
    is_smooth: bool = True
    """Whether the gradient is compared with finite differences, if the kernel has one."""
    undifferentiated_inputs: Sequence[int] = ()
    """The positions of inputs that are not differentiated, beside those with a dtype of their own."""
    prepare_input: Callable[..., Any] | None = None
    """Makes the only input from another tensor in comparisons of gradients, because not every tensor is allowed."""
    tolerance_factor: float = 1
    """How much larger than usual the error of a result may be."""
    canonicalize: Callable[..., Any] | None = None
    """Turns outputs that are not unique into those of the reference."""
    is_edge: bool = False
    """Whether the row is an edge case."""
    is_special: bool = True
    """Whether the reference is right for NaN, infinities and zeros, too."""
    op: Callable[..., Any] | None = None
    """The public op that runs the kernel, called with the same inputs and attributes.

    If the kernel takes nothing but a list, it is called with a list of inputs. It need not be given if its name is the
    kernel's. plugrad's own tests call it; the kit, which is about backends, does not.
    """
    row_number: int = 1
    """The number of the row among those of its kernel, from 1 on."""

    def __str__(self) -> str:
        return f"{self.kernel.name}.{self.row_number}"

    @property
    def tested_dtypes(self) -> tuple[str, ...]:
        """The dtypes on which the row runs, the most important one first."""
        if self.dtypes:
            return tuple(self.dtypes)
        return tuple(name for name in NUMBER_DTYPES if as_dtype(name) in self.kernel.accepts)

    def required_dtypes(self, dtype: str) -> set[str]:
        """Return the dtypes that a backend must store to run the row on `dtype`."""
        named = {x.dtype for x in self.inputs if x is not None}
        named |= {v for k, v in self.attrs.items() if k == "dtype"}
        return {dtype if name == ROW_DTYPE else str(name) for name in (*named, ROW_DTYPE)}

    def attributes(self, dtype: str) -> dict[str, Any]:
        """Return the attributes of the kernel for a run of the row on `dtype`."""
        return {k: as_dtype(dtype) if v is ROW_DTYPE else v for k, v in self.attrs.items()}

    def draw_inputs(self, dtype: str) -> list[Array | None]:
        """Draw the inputs, which are the same in every run."""
        rng = np.random.default_rng(20240229)
        return [
            x and x.draw(rng, x.shape, dtype if x.dtype == ROW_DTYPE else x.dtype)
            for x in self.inputs
        ]

    def with_shapes(self, *shapes: Shape) -> Row:
        """Return the row with inputs of other shapes."""
        inputs = [
            x and replace(x, shape=shape) for x, shape in zip(self.inputs, shapes, strict=True)
        ]
        return replace(self, inputs=inputs)

    def expected_outputs(self, arrays: Iterable[Array | None]) -> list[Array]:
        """Return the expected outputs in double precision."""
        with np.errstate(all="ignore"):
            result = self.reference(*[x if x is None else as_double(x) for x in arrays])
        parts = cast("list[Array]", result if isinstance(result, list) else [result])
        return [np.asarray(part) for part in parts]


def as_double(array: Array) -> Array:
    """Cast floating and complex arrays to double precision; return others unchanged."""
    return array.astype({"f": "float64", "c": "complex128"}.get(array.dtype.kind, array.dtype))


def numbers(
    low: float = -3,
    high: float = 3,
    *,
    shape: Shape = (3, 5),
    avoid: Sequence[float] = (),
    dtype: str = ROW_DTYPE,
    allowed_range: tuple[float, float] = (-np.inf, np.inf),
) -> Input:
    """Return an input of numbers between two bounds, away from `avoid`, such as the kinks of a function.

    The contract may allow more numbers than are drawn, such as infinity; special values are taken from `allowed_range`.
    """

    def draw(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
        kind = as_dtype(dtype).kind
        if kind == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if kind in ("signed", "unsigned"):
            least = max(low, 0) if kind == "unsigned" else low
            choices = list(range(int(np.ceil(least)), int(np.floor(high)) + 1))
            # A function that has a kink at every whole number has none for whole numbers.
            wanted = [n for n in choices if n not in avoid] or choices
            return rng.choice(wanted, shape).astype(dtype)
        x = np.asarray(rng.uniform(low, high, shape))
        for kink in avoid:
            x = np.where(np.abs(x - kink) < 0.1, x + 0.2, x)
        return (x + 1j * rng.uniform(-1, 1, shape) if kind == "complex" else x).astype(dtype)

    return Input(draw, shape, dtype, allowed_range)


def integers(low: int, high: int, *shape: int, dtype: str = "int32") -> Input:
    """Return an input of integers from `low` to `high`, both included."""
    return Input(
        lambda rng, shape, dtype: rng.integers(low, high, shape, endpoint=True).astype(dtype),
        shape,
        dtype,
    )


def bools(*shape: int) -> Input:
    """Return an input of random bools."""
    return integers(0, 1, *shape, dtype="bool")


def distinct_numbers(*shape: int, step: float = 0.25) -> Input:
    """Return an input of distinct multiples of `step` around 0, in random order."""

    def draw(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
        count = int(np.prod(shape))
        least = 0 if as_dtype(dtype).kind in ("unsigned", "bool") else count // 2
        unit = step if as_dtype(dtype).is_inexact else 1
        return ((rng.permutation(count) - least) * unit).reshape(shape).astype(dtype)

    return Input(draw, shape)


def fixed_values(values: Any, dtype: str = ROW_DTYPE) -> Input:
    """Return an input of the given values; for another shape, cut off or repeated."""
    given = np.array(values, STRING_DTYPE if dtype == string else None)

    def draw(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
        return np.resize(given, shape).astype(STRING_DTYPE if dtype == string else dtype)

    return Input(draw, given.shape, dtype)


def arbitrary_numbers(*shape: int) -> Input:
    """Return an input of arbitrary numbers in a given shape."""
    return numbers(shape=shape)


def extremes(by_column: bool = False) -> Input:
    """Return an input with all pairs of a dtype's extreme values, row by row, or if `by_column`, by column."""

    def draw(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
        if as_dtype(dtype).is_integer:
            span = np.iinfo(dtype)
            ends = np.array([span.min, span.min + 1, 0, 1, span.max - 1, span.max], dtype)
        else:
            limits = np.finfo(dtype)
            ends = np.array([limits.min, -limits.tiny, 0, limits.eps, 1 / 3, limits.max], dtype)
        return np.repeat(ends, 6) if by_column else np.tile(ends, 6)

    return Input(draw, (36,))
