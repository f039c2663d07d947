"""A row of a family's table: an op, what NumPy says it gives, and what to feed it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

import plugrad
from plugrad.testing import check_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from families.domains import Domain

Array = NDArray[Any]
Shape = tuple[int, ...]

FLOATS = ("float32", "float64")
REALS = (*FLOATS, "int32", "int64", "int8", "uint8", "uint32")
EVERYTHING = (*REALS, "bool")

DEFAULT_TOLERANCE = {"float32": 2e-6, "float64": 1e-13, "complex64": 4e-6}


@dataclass(frozen=True)
class Near:
    """A tolerance that is not the default one, and why. It is meant for float32."""

    tolerance: float
    because: str


@dataclass(frozen=True)
class Case:
    """An op on tensors, compared with a reference on arrays that gets the same attributes.

    Args:
        op: called with one tensor for each domain, and the attributes.
        reference: called with arrays, floats in double precision.
        domains: where the elements of each input come from.
        shapes: the shapes of the inputs, by default (3, 5) for all.
        dtypes: what the first input may be; the inputs whose domain has no dtype have the same.
        result: the dtype of the result, by default the one of the inputs.
        tolerance: by backend, where it is not the default.
        is_differentiable: whether the gradients for all floating inputs are checked.
        first_only: whether only the first input is differentiated, because the others make jumps.
        is_sum: whether an element is a sum, whose error grows with the terms: the tolerance is then
            a part of the largest element.
        name: by default the op's and the attributes.
    """

    op: Callable[..., Any]
    reference: Callable[..., Any]
    domains: Sequence[Domain]
    shapes: Sequence[Shape] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Sequence[str] = FLOATS
    result: str = ""
    tolerance: Mapping[str, Near] = field(default_factory=dict)
    is_differentiable: bool = True
    first_only: bool = False
    is_sum: bool = False
    name: str = ""

    def __str__(self) -> str:
        op = getattr(self.op, "__name__", None) or getattr(self.op, "name", "")
        attrs = "".join(f" {key}={value}" for key, value in self.attrs.items())
        return self.name or f"{op}{attrs}".replace(", ", ",")

    def with_shapes(self, *shapes: Shape) -> Case:
        return replace(self, shapes=shapes)

    def drawn(self, rng: np.random.Generator, dtype: str) -> list[Array]:
        shapes = self.shapes or [(3, 5)] * len(self.domains)
        return [
            domain.draw(rng, shape, domain.dtype or dtype)
            for domain, shape in zip(self.domains, shapes, strict=True)
        ]

    def check_values(
        self, rng: np.random.Generator, dtype: str = "float32", layout: str = "plain"
    ) -> None:
        self.check_values_of(self.drawn(rng, dtype), dtype, layout)

    def check_values_of_other_dtypes(self, rng: np.random.Generator) -> None:
        """Compare values for every dtype that the op takes and the backend has, besides float32."""
        has = plugrad.which().backend.dtypes()
        for dtype in self.dtypes:
            if dtype != "float32" and dtype in has:
                self.check_values(rng, dtype)

    def check_values_of(
        self, arrays: Sequence[Array], dtype: str = "float32", layout: str = "plain"
    ) -> None:
        """Compare values, shape and dtype of the result with the reference."""
        tensors = [LAYOUTS[layout](array) for array in arrays]
        # NumPy warns of the overflows and NaN that some rows are about; the contracts do not.
        with np.errstate(all="ignore"):
            actual = self.op(*tensors, **self.attrs)
            expected = self.reference(*map(in_double, arrays), **self.attrs)
        has_parts = isinstance(actual, list | tuple)
        assert has_parts == isinstance(expected, list | tuple)
        for got, wanted in zip(
            *((actual, expected) if has_parts else ([actual], [expected])), strict=True
        ):
            self.compare(got, np.asarray(wanted), self.result or dtype)

    def compare(self, actual: plugrad.Tensor, expected: Array, dtype: str) -> None:
        assert actual.dtype == dtype
        assert actual.shape == expected.shape
        backend = plugrad.which().backend.name
        values = actual.numpy()
        stored = plugrad.as_dtype(dtype).numpy
        assert (values.dtype, values.shape, actual.device) == (
            stored,
            expected.shape,
            f"{backend}:0",
        )
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float is infinite
            expected = expected.astype(stored)
        if dtype not in DEFAULT_TOLERANCE:
            np.testing.assert_array_equal(values, expected, err_msg=dtype)
            return
        near = self.tolerance.get(backend)
        allowed = near.tolerance if near and dtype == "float32" else DEFAULT_TOLERANCE[dtype]
        largest = np.abs(expected).max(initial=1) if self.is_sum else 1
        np.testing.assert_allclose(
            values, expected, rtol=allowed, atol=allowed * largest, err_msg=dtype
        )

    def check_gradient(self, rng: np.random.Generator, backend: str) -> None:
        """Compare gradients with finite differences: on the cpu in float64, to second order.

        Elsewhere in float32, to first order, and with the cpu's gradients of both orders.
        """
        dtype, order = ("float64", 2) if backend == "cpu" else ("float32", 1)
        is_complex = not set(self.dtypes) & {*FLOATS, "float16"}
        arrays = self.drawn(rng, "complex128" if is_complex else dtype)
        tensors = [plugrad.asarray(array) for array in arrays]
        if self.first_only:
            check_gradient(self.with_fixed(tensors[1:]), tensors[0], order=order, dtype=dtype)
            return
        check_gradient(self.differentiable, *tensors, order=order, dtype=dtype)
        if backend != "cpu":
            self.check_derivatives_against_cpu(arrays)

    def check_first_gradient(self, rng: np.random.Generator) -> None:
        """Compare the first gradient in float32 with finite differences."""
        is_complex = not set(self.dtypes) & {*FLOATS, "float16"}
        arrays = self.drawn(rng, "complex64" if is_complex else "float32")
        tensors = [plugrad.asarray(array) for array in arrays]
        count = 1 if self.first_only else len(tensors)
        check_gradient(
            lambda *xs: self.differentiable(*xs, *tensors[count:]),
            *tensors[:count],
            order=1,
            dtype="float32",
        )

    def with_fixed(self, others: Sequence[plugrad.Tensor]) -> Callable[..., plugrad.Tensor]:
        """Return the op as a function of its first input."""
        return lambda x: self.differentiable(x, *others)

    def check_derivatives_against_cpu(self, arrays: Sequence[Array]) -> None:
        """Compare the first and second derivatives with the cpu's in double precision."""
        here = self.derivatives(arrays)
        with plugrad.use("cpu"):
            there = self.derivatives([in_double(array) for array in arrays])
        for order, (mine, exact) in enumerate(zip(here, there, strict=True), 1):
            for actual, expected in zip(mine, exact, strict=True):
                allowed = 1e-5 * max(1, float(np.abs(expected).max(initial=0)))
                np.testing.assert_allclose(
                    actual, expected, rtol=1e-5, atol=allowed, err_msg=f"order {order}"
                )

    def derivatives(self, arrays: Sequence[Array]) -> list[list[Array]]:
        """Return the gradients of the weighted result, and those of their weighted sum."""
        positions = tuple(i for i, array in enumerate(arrays) if array.dtype.kind == "f")
        tensors = [plugrad.asarray(array) for array in arrays]

        def weighted(x: plugrad.Tensor) -> plugrad.Tensor:
            weights = np.linspace(0.5, 1.5, x.size).reshape(x.shape)
            return plugrad.sum((x + x * x * 0.5) * plugrad.asarray(weights.astype(str(x.dtype))))

        def first(*xs: plugrad.Tensor) -> Any:
            value = lambda *ys: weighted(self.differentiable(*ys))  # noqa: E731
            return plugrad.grad(value, positions, allow_unused=True)(*xs)

        def second(*xs: plugrad.Tensor) -> Any:
            value = lambda *ys: plugrad.add_n([weighted(g) for g in first(*ys)])  # noqa: E731
            return plugrad.grad(value, positions, allow_unused=True)(*xs)

        return [[g.numpy() for g in order(*tensors)] for order in (first, second)]

    @property
    def differentiable(self) -> Callable[..., plugrad.Tensor]:
        """The op as a function of tensors to one tensor."""
        named = partial(as_one, self.op, self.attrs)
        named.__name__ = str(self)  # type: ignore[attr-defined]
        return named


def as_one(op: Callable[..., Any], attrs: Mapping[str, Any], *tensors: plugrad.Tensor) -> Any:
    """Return the result of an op; several tensors are flattened and joined."""
    result = op(*tensors, **attrs)
    return plugrad.concat(result, axis=None) if isinstance(result, list | tuple) else result


def in_double(array: Array) -> Array:
    return array.astype({"f": "float64", "c": "complex128"}.get(array.dtype.kind, array.dtype))


def plain(array: Array) -> plugrad.Tensor:
    return plugrad.asarray(array)


def transposed(array: Array) -> plugrad.Tensor:
    """Return the same values, but with the elements in another order in memory."""
    order = tuple(reversed(range(array.ndim)))
    return plugrad.permute_dims(plugrad.asarray(array.transpose(order)), order)


def reversed_twice(array: Array) -> plugrad.Tensor:
    """Return the same values as the reverse of their reverse, which may be a view."""
    return plugrad.flip(plugrad.asarray(np.flip(array)))


def cut_out(array: Array) -> plugrad.Tensor:
    """Return the same values as every second element from the middle of a larger tensor."""
    larger = np.ones([2 * n + 3 for n in array.shape], array.dtype)
    place = tuple(slice(1, 1 + 2 * n, 2) for n in array.shape)
    larger[place] = array
    return plugrad.asarray(larger)[place]


LAYOUTS: Mapping[str, Callable[[Array], plugrad.Tensor]] = {
    "plain": plain,
    "transposed": transposed,
    "reversed": reversed_twice,
    "cut out": cut_out,
}
VIEWS = tuple(name for name in LAYOUTS if name != "plain")


@dataclass(frozen=True)
class Refusal:
    """A call that makes no sense, the error it raises, and what the message says."""

    call: Callable[[], Any]
    error: type[Exception]
    words: Sequence[str]

    def __str__(self) -> str:
        return f"{self.error.__name__} {self.words[0]}"

    def check(self) -> None:
        with pytest.raises(self.error) as raised:
            self.call()
        assert raised.type is self.error
        message = str(raised.value)
        missing = [word for word in self.words if word not in message]
        assert not missing, f"{missing} not in {message!r}"


def rows(cases: Sequence[Case], dtype: str = "float32") -> list[Case]:
    """Return the cases that take inputs of a dtype."""
    return [case for case in cases if dtype in case.dtypes]
