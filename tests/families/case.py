"""A row of a family's table: an op, what NumPy says it gives, and what to feed it."""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

import plugrad
from consistency.committed import is_listed
from families.domains import Domain
from families.once import compute_once
from plugrad.errors import UnsupportedDtype
from plugrad.testing import check_gradient
from plugrad.testing.checks import is_differentiable
from plugrad.testing.comparison import assert_close, assert_equal
from plugrad.testing.rows import ROW_DTYPE, as_double
from plugrad.testing.tables import rows
from plugrad.types.dtype import INEXACT, as_dtype
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.testing.rows import Row

Array = NDArray[Any]
Shape = tuple[int, ...]

FLOAT_DTYPES = ("float32", "float64")
REAL_DTYPES = (*FLOAT_DTYPES, "int32", "int64", "int8", "uint8", "uint32")
REAL_AND_BOOL_DTYPES = (*REAL_DTYPES, "bool")

DEFAULT_TOLERANCE = {
    "float16": 2e-3,
    "float32": 2e-6,
    "float64": 1e-13,
    "complex64": 4e-6,
    "complex128": 2e-13,
}


@dataclass(frozen=True)
class CustomTolerance:
    """A tolerance other than the default, for float32, and the reason for it."""

    tolerance: float
    because: str


@dataclass(frozen=True)
class Case:
    """A test case: an op on tensors, and a reference on arrays that takes the same attributes.

    Args:
        op: called with one tensor for each domain, and the attributes.
        reference: called with arrays, floats in double precision.
        domains: where the elements of each input come from.
        shapes: the shapes of the inputs, by default (3, 5) for all.
        dtypes: what the first input may be; the inputs whose domain has no dtype have the same.
        result: the dtype of the result, by default the one of the inputs or what the kernel promises.
        tolerance: by backend, where it is not the default.
        is_differentiable: whether the gradients for the floating inputs are checked.
        undifferentiated_inputs: the positions of inputs that are not differentiated, because they make jumps.
        is_sum: whether an element is a sum, whose error grows with the terms: the tolerance is then
            a part of the largest element.
        name: by default the op's and the attributes.
        is_special: whether the reference is right for NaN and infinities, too.
        kernel: the contract, if the op runs one kernel: what it promises is checked as well.
        prepare_input: makes the only input out of another tensor where gradients are checked.
        canonicalize: turns the results into what the reference gives, where results are not unique.
        tolerance_factor: how much further off than usual a result may be.
    """

    op: Callable[..., Any]
    reference: Callable[..., Any]
    domains: Sequence[Domain | None]
    shapes: Sequence[Shape] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Sequence[str] = FLOAT_DTYPES
    result: str = ""
    tolerance: Mapping[str, CustomTolerance] = field(default_factory=dict)
    is_differentiable: bool = True
    undifferentiated_inputs: Sequence[int] = ()
    is_sum: bool = False
    name: str = ""
    is_special: bool = True
    kernel: Kernel[..., Any] | None = None
    prepare_input: Callable[..., Any] | None = None
    canonicalize: Callable[..., Any] | None = None
    tolerance_factor: float = 1

    def __str__(self) -> str:
        op = getattr(self.op, "__name__", None) or getattr(self.op, "name", "")
        attrs = "".join(f" {key}={value}" for key, value in self.attrs.items())
        return self.name or f"{op}{attrs}".replace(", ", ",")

    def with_shapes(self, *shapes: Shape) -> Case:
        return replace(self, shapes=shapes)

    def expand_shapes(self, *choices: Sequence[Shape]) -> list[Case]:
        """Return the case once for each choice of input shapes, or as it is if it has shapes."""
        return [self] if self.shapes else [self.with_shapes(*shapes) for shapes in choices]

    @property
    def main_dtype(self) -> str:
        """The first dtype of the case that the active backend supports."""
        for dtype in self.dtypes:
            if not unsupported_dtypes([dtype]):
                return dtype
        pytest.skip(f"the backend stores none of {', '.join(self.dtypes)}")

    @property
    def converts_integers_to_floats(self) -> bool:
        """Whether the op converts integers to float32, because its kernel does not accept them."""
        return self.kernel is not None and self.kernel.accepts <= INEXACT

    def attributes(self, dtype: str) -> dict[str, Any]:
        """Return the attributes for inputs of a dtype."""
        return {n: as_dtype(dtype) if v is ROW_DTYPE else v for n, v in self.attrs.items()}

    def draw(self, rng: np.random.Generator, dtype: str) -> list[Array | None]:
        shapes = self.shapes or [(3, 5)] * len(self.domains)
        return [
            domain and domain.draw(rng, shape, domain.dtype or dtype)
            for domain, shape in zip(self.domains, shapes, strict=True)
        ]

    def check_values(
        self, rng: np.random.Generator, dtype: str = "float32", layout: str = "plain"
    ) -> None:
        self.check_values_of_arrays(self.draw(rng, dtype), dtype, layout)

    def check_values_of_views(self, rng: np.random.Generator, dtype: str = "float32") -> None:
        """Compare values for inputs that are views, in each layout of `VIEW_LAYOUTS`."""
        for layout in VIEW_LAYOUTS:
            try:
                self.check_values(rng, dtype, layout)
            except Exception as failure:
                failure.add_note(f"The inputs are {layout}.")
                raise

    def check_values_of_other_dtypes(self, rng: np.random.Generator) -> None:
        """Compare values for each dtype but float32 that the op accepts and the backend supports.

        A backend may refuse a dtype for a kernel if the page of kernels says so.
        """
        backend = plugrad.which().backend
        for dtype in self.dtypes:
            if dtype != "float32" and dtype in backend.dtypes():
                try:
                    self.check_values(rng, dtype)
                except UnsupportedDtype:
                    if self.kernel is None or is_listed(self.kernel.name, backend.name, dtype):
                        raise

    def check_values_of_arrays(
        self, arrays: Sequence[Array | None], dtype: str = "float32", layout: str = "plain"
    ) -> None:
        """Compare values, shape and dtype of the result with the reference.

        A dtype that the backend does not store is refused.
        """
        attrs = self.attributes(dtype)
        tensors = [x if x is None else LAYOUTS[layout](x) for x in arrays]
        dtypes = self.result_dtypes(tensors, dtype)
        if unsupported_dtypes(dtypes):
            with pytest.raises(UnsupportedDtype):
                self.op(*tensors, **attrs)
            return
        # NumPy warns of the overflows and NaN that some rows are about; the contracts do not.
        with np.errstate(all="ignore"):
            actual = self.op(*tensors, **attrs)
            expected = compute_once(
                lambda: self.reference(
                    *[x if x is None else as_double(x) for x in arrays], **attrs
                ),
                (self.reference, self.attrs),
                dtype,
                arrays,
            )
        has_parts = isinstance(actual, list | tuple)
        assert has_parts == isinstance(expected, list | tuple)
        results, wanted = (actual, expected) if has_parts else ([actual], [expected])
        dtypes = dtypes * len(results) if len(dtypes) == 1 else dtypes
        if self.canonicalize is not None:
            assert [x.dtype for x in results] == dtypes
            results = [plugrad.asarray(x) for x in self.canonicalize(*[x.numpy() for x in results])]
            dtypes = [str(x.dtype) for x in results]
        for result, right, name in zip(results, wanted, dtypes, strict=True):
            self.compare(result, np.asarray(right), name)
        if layout == "plain":
            for tensor, array in zip(tensors, arrays, strict=True):
                if array is not None:
                    assert_equal(tensor.numpy(), array, "an input was changed")

    def result_dtypes(self, inputs: Sequence[Any], dtype: str) -> list[str]:
        """Return the dtypes of the results for inputs of a dtype; one dtype if all results have it."""
        if self.kernel is None or self.result:
            return [self.result or dtype]
        attrs = self.kernel.fill_defaults(self.attributes(dtype))
        described = [None if x is None else Shaped(x.shape, as_dtype(x.dtype)) for x in inputs]
        promised = self.kernel.infer(*described, **attrs)
        return [str(x.dtype) for x in ([promised] if hasattr(promised, "dtype") else promised)]

    def check_special_values(self, values: Array) -> None:
        """Compare results for all combinations of special values of float32."""
        own = [domain.dtype for domain in self.domains]
        grids = iter(np.meshgrid(*[values] * own.count("")))
        size = len(values) ** own.count("")
        rng = np.random.default_rng(0)
        self.check_values_of_arrays(
            [
                domain.draw(rng, (size,), domain.dtype)
                if domain.dtype
                else next(grids).ravel().clip(*domain.allowed)
                for domain in self.domains
            ]
        )

    def compare(self, actual: plugrad.Tensor, expected: Array, dtype: str) -> None:
        assert actual.dtype == dtype
        assert actual.shape == expected.shape
        backend = plugrad.which().backend.name
        values = actual.numpy()
        stored = as_dtype(dtype).numpy
        assert (values.dtype, values.shape, actual.device) == (
            stored,
            expected.shape,
            f"{backend}:0",
        )
        with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest float is infinite
            expected = expected.astype(stored)
        if dtype not in DEFAULT_TOLERANCE:
            assert_equal(values, expected, dtype)
            return
        near = self.tolerance.get(backend)
        allowed = near.tolerance if near and dtype == "float32" else DEFAULT_TOLERANCE[dtype]
        allowed *= self.tolerance_factor
        finite = expected[np.isfinite(expected)]
        largest = np.abs(finite).max(initial=1) if self.is_sum else 1
        assert_close(values, expected, allowed, allowed * largest, dtype)

    def check_gradient(self, rng: np.random.Generator, backend: str) -> None:
        """Compare gradients with finite differences: on the cpu to second order, elsewhere to first.

        That is in float64, because the steps in float32 are so large that they may cross a kink, and only
        on a backend that has it. Elsewhere than on the cpu, the gradients of both orders in float32 are
        compared with the cpu's, which is two hundred times as strict as differences in float32.
        """
        if backend == "cpu":
            check_gradient(
                *self.differentiable_function(self.draw_for_gradient(rng, "float64")),
                order=2,
                dtype="float64",
            )
            return
        arrays = self.draw_for_gradient(rng, "float32")
        with suppress(UnsupportedDtype):
            precise = self.draw_for_gradient(rng, "float64")
            check_gradient(*self.differentiable_function(precise), order=1, dtype="float64")
        self.check_derivatives_against_cpu(arrays)

    def draw_for_gradient(self, rng: np.random.Generator, dtype: str) -> list[Array | None]:
        """Return inputs of a real dtype, or of its complex one for functions of complex numbers."""
        is_complex = not set(self.dtypes) & {*FLOAT_DTYPES, "float16"}
        number = {"float64": "complex128", "float32": "complex64"}[dtype] if is_complex else dtype
        arrays = self.draw(rng, number)
        if missing := unsupported_dtypes(self.result_dtypes(arrays, number)):
            if dtype == "float64":
                raise UnsupportedDtype(missing)
            pytest.skip(f"the backend does not store {missing}")
        return arrays

    def check_first_gradient(self, rng: np.random.Generator) -> None:
        """Compare the first gradient in float32 with finite differences."""
        is_complex = not set(self.dtypes) & {*FLOAT_DTYPES, "float16"}
        arrays = self.draw(rng, "complex64" if is_complex else "float32")
        check_gradient(*self.differentiable_function(arrays), order=1, dtype="float32")

    def differentiable_function(self, arrays: Sequence[Array | None]) -> list[Any]:
        """Return the op as a function of its differentiable inputs, and these inputs."""
        tensors = [x if x is None else plugrad.asarray(x) for x in arrays]
        places = [
            i
            for i, x in enumerate(tensors)
            if x is not None and i not in self.undifferentiated_inputs
        ]

        def function(*xs: plugrad.Tensor) -> plugrad.Tensor:
            given = dict(zip(places, xs, strict=True))
            return self.join_results(*[given.get(i, x) for i, x in enumerate(tensors)])

        function.__name__ = str(self)
        return [function, *[tensors[i] for i in places]]

    def check_derivatives_against_cpu(self, arrays: Sequence[Array | None]) -> None:
        """Compare the first and second derivatives with the double-precision ones of the cpu."""
        here = self.derivative_arrays(arrays)
        there = compute_once(
            lambda: self.derivatives_on_cpu(arrays),
            (self.op, self.attrs, self.prepare_input),
            ("derivatives", *self.undifferentiated_inputs),
            arrays,
        )
        for order, (mine, exact) in enumerate(zip(here, there, strict=True), 1):
            for actual, expected in zip(mine, exact, strict=True):
                allowed = 1e-5 * max(1, float(np.abs(expected).max(initial=0)))
                assert_close(actual, expected, 1e-5, allowed, f"order {order}")

    def derivatives_on_cpu(self, arrays: Sequence[Array | None]) -> list[list[Array]]:
        with plugrad.use("cpu"):
            return self.derivative_arrays([x if x is None else as_double(x) for x in arrays])

    def derivative_arrays(self, arrays: Sequence[Array | None]) -> list[list[Array]]:
        """Return the arrays of `derivative_tensors`."""
        return [[g.numpy() for g in order] for order in self.derivative_tensors(arrays)]

    def derivative_tensors(self, arrays: Sequence[Array | None]) -> list[list[plugrad.Tensor]]:
        """Return the gradients of a weighted sum of the result, and the gradients of a weighted sum of these."""
        function, *tensors = self.differentiable_function(arrays)
        positions = tuple(i for i, x in enumerate(tensors) if x.dtype.is_inexact)

        def weighted(x: plugrad.Tensor) -> plugrad.Tensor:
            weights = np.linspace(0.5, 1.5, x.size).reshape(x.shape)
            return plugrad.sum((x + x * x * 0.5) * plugrad.asarray(weights.astype(str(x.dtype))))

        def first(*xs: plugrad.Tensor) -> Any:
            value = lambda *ys: weighted(function(*ys))  # noqa: E731
            return plugrad.grad(value, positions, allow_unused=True)(*xs)

        def second(*xs: plugrad.Tensor) -> Any:
            value = lambda *ys: plugrad.add_n([weighted(g) for g in first(*ys)])  # noqa: E731
            return plugrad.grad(value, positions, allow_unused=True)(*xs)

        return [list(order(*tensors)) for order in (first, second)]

    def join_results(self, *tensors: plugrad.Tensor | None) -> plugrad.Tensor:
        """Return the floating-point results as one tensor; several are flattened and concatenated."""
        if self.prepare_input is not None:
            tensors = [self.prepare_input(x) for x in tensors]
        result = self.op(*tensors, **self.attrs)
        if not isinstance(result, list | tuple):
            return result
        return plugrad.concat([x for x in result if x.dtype.is_inexact], axis=None)


def unsupported_dtypes(dtypes: Iterable[str]) -> str:
    """Return the dtypes that the active backend does not support, as text."""
    return ", ".join(sorted(set(dtypes) - plugrad.which().backend.dtypes()))


def contiguous_tensor(array: Array) -> plugrad.Tensor:
    return plugrad.asarray(array)


def transposed_tensor(array: Array) -> plugrad.Tensor:
    """Return a tensor of the same values with another order of the elements in memory."""
    order = tuple(reversed(range(array.ndim)))
    return plugrad.permute_dims(plugrad.asarray(array.transpose(order)), order)


def twice_reversed_tensor(array: Array) -> plugrad.Tensor:
    """Return a tensor of the same values, reversed twice, which may be a view."""
    return plugrad.flip(plugrad.asarray(np.flip(array)))


def strided_slice_tensor(array: Array) -> plugrad.Tensor:
    """Return a tensor of the same values that is every second element of a slice of a larger tensor."""
    larger = np.ones([2 * n + 3 for n in array.shape], array.dtype)
    place = tuple(slice(1, 1 + 2 * n, 2) for n in array.shape)
    larger[place] = array
    return plugrad.asarray(larger)[place]


LAYOUTS: Mapping[str, Callable[[Array], plugrad.Tensor]] = {
    "plain": contiguous_tensor,
    "transposed": transposed_tensor,
    "reversed": twice_reversed_tensor,
    "cut out": strided_slice_tensor,
}
VIEW_LAYOUTS = tuple(name for name in LAYOUTS if name != "plain")


@dataclass(frozen=True)
class ErrorCase:
    """A test case: an invalid call, the error that it raises, and words of the message."""

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


def cases_with_dtype(cases: Sequence[Case], dtype: str = "float32") -> list[Case]:
    """Return the cases whose first input may have a dtype."""
    return [case for case in cases if dtype in case.dtypes]


# --- the tables of the conformance kit -------------------------------------------------------------


@cache
def conformance_cases(family: str) -> tuple[Case, ...]:
    """Return the cases of the conformance kit for the kernels of a family.

    Edge cases of elementwise kernels are left to the kit: tests here choose shapes and values themselves.
    """
    return tuple(
        case_from_row(row)
        for row in rows()
        if row.kernel.family == family and not (row.is_edge and row.kernel.is_elementwise)
    )


def case_from_row(row: Row) -> Case:
    """Return a case of the conformance kit as a case of the kernel's op, or of the kernel if no op matches.

    What an elementwise kernel is given has no shape of its own: tests choose shapes.
    """
    attrs = "".join(f" {key}={value}" for key, value in row.attrs.items())
    return Case(
        matching_op(row),
        lambda *arrays, **_: row.reference(*arrays),
        [
            x and Domain(x.draw, "" if x.dtype == ROW_DTYPE else x.dtype, x.allowed_range)
            for x in row.inputs
        ],
        () if row.kernel.is_elementwise else [() if x is None else x.shape for x in row.inputs],
        row.attrs,
        row.tested_dtypes,
        is_differentiable=is_differentiable(
            row if has_nonempty_arrays(row) else replace(row, is_edge=False)
        )
        or is_piecewise_constant(row),
        undifferentiated_inputs=[
            i
            for i, x in enumerate(row.inputs)
            if i in row.undifferentiated_inputs or (x and x.dtype != ROW_DTYPE)
        ],
        is_sum=not row.kernel.is_elementwise,
        name=f"{contract_name(row.kernel)}{attrs}".replace(", ", ","),
        is_special=row.is_special,
        kernel=row.kernel,
        prepare_input=row.prepare_input,
        canonicalize=row.canonicalize,
        tolerance_factor=row.tolerance_factor,
    )


def has_nonempty_arrays(row: Row) -> bool:
    """Whether no input of a case is empty or 0-d."""
    return all(x is None or (x.shape and 0 not in x.shape) for x in row.inputs)


def is_piecewise_constant(row: Row) -> bool:
    """Whether the result of a case is floating but its gradient is 0, as for floor."""
    if not (
        row.kernel.is_elementwise and row.is_smooth and set(FLOAT_DTYPES) & set(row.tested_dtypes)
    ):
        return False
    inputs = [
        Shaped((), as_dtype("float32" if x.dtype == ROW_DTYPE else x.dtype)) for x in row.inputs
    ]
    return row.kernel.infer(*inputs, **row.attributes("float32")).dtype.is_inexact


def contract_name(kernel: Kernel[..., Any]) -> str:
    """Return the name of a kernel's contract in the module of its family."""
    module = import_module(kernel.rule.__module__)
    return next(name for name, value in vars(module).items() if value is kernel)


def matching_op(row: Row) -> Callable[..., Any]:
    """Return the op that a case names, or the op with the name and the parameters of the kernel.

    Without either it is the kernel.
    """
    kernel, op = row.kernel, row.op
    if op is None:
        pages = [public_attribute(plugrad, kernel.family), plugrad]
        named = [page and public_attribute(page, contract_name(kernel)) for page in pages]
        op = next((op for op in named if has_parameters_of_kernel(op, row)), kernel)
    return with_varargs(op) if kernel.is_variadic and op is not kernel else op


def public_attribute(page: Any, name: str) -> Any:
    """Return the public attribute of a module with a name, or None.

    Asking the page for a name that it lacks would search for similar ones.
    """
    return getattr(page, name) if name in module_names(page) else None


@cache
def module_names(page: Any) -> frozenset[str]:
    return frozenset(dir(page))


def has_parameters_of_kernel(op: Any, row: Row) -> bool:
    """Whether an op takes the inputs and the attributes of a case as its kernel does."""
    if not inspect.isfunction(op) or (row.kernel.takes_list and not row.kernel.is_variadic):
        return False
    inputs = [None] if row.kernel.is_variadic else row.inputs
    try:
        inspect.signature(op).bind(*inputs, **row.attrs)
    except TypeError:
        return False
    return True


def with_varargs(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of several tensors, given an op of a list of tensors."""

    @wraps(op)
    def call_with_list(*tensors: plugrad.Tensor, **attrs: Any) -> Any:
        return op(list(tensors), **attrs)

    return call_with_list
