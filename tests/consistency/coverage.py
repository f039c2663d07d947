"""Measure which kernels each backend runs on which dtypes, by running the test cases of all families.

A family's rows are those of the conformance kit's table and those of its test module.
"""

from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import plugrad
from families.case import Case, conformance_cases
from plugrad import kernels
from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.extend import KERNELS
from plugrad.tensor.backend import Backend
from plugrad.types.dtype import DTYPES

KERNEL_FAMILIES = sorted(p.stem for p in Path(kernels.__file__).parent.glob("[!_]*.py"))
MAX_CASE_ELEMENTS = 4096  # elements; larger rows are about speed and limits, not about dtypes

DtypesByKernel = dict[str, set[str]]  # dtypes by kernel


def family_kernels(family: str) -> list[str]:
    """Return the kernels of one of core's families in the order of their file."""
    return [k.name for k in KERNELS.values() if k.rule.__module__ == f"plugrad.kernels.{family}"]


def core_kernels() -> list[str]:
    """Return all kernels that core declares."""
    return [name for family in KERNEL_FAMILIES for name in family_kernels(family)]


def iter_cases(value: object) -> Iterator[Case]:
    """Yield the test cases in the value of a module's variable."""
    if isinstance(value, Case):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from iter_cases(part)


def family_cases(family: str) -> list[Case]:
    """Return the test cases of a family, those of the conformance kit first."""
    own = vars(import_module(f"families.test_{family}")).values()
    found = [*conformance_cases(family), *(c for value in own for c in iter_cases(value))]
    return list({id(case): case for case in found}.values())


class RecordingKernelTable(dict):
    """A backend's kernels; each records the dtypes that it was called with."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.functions = backend.functions
        self.ran: DtypesByKernel = defaultdict(set)
        self.called: set[str] = set()
        """The kernels that have run since it was emptied."""

    def __missing__(self, name: str) -> Any:
        function = self.functions[name]

        def record_and_call(*arrays: Any, **attrs: Any) -> Any:
            result = function(*arrays, **attrs)
            self.called.add(name)
            given = next((a for a in arrays if hasattr(a, "dtype")), None)
            first = result if given is None else given
            self.ran[name].add(str(plugrad.as_dtype(first.dtype)))
            return result

        return record_and_call


def run_family(family: str, *, every_dtype: bool = False) -> DtypesByKernel:
    """Run the test cases of a family on the active backend; return the dtypes by kernel.

    Rows run on their own dtypes, or on `every_dtype` that the backend has, except where each kernel that
    a row runs has run on the dtype in rows before it, or does not accept it and the row is not made for it.
    """
    backend = plugrad.which().backend
    functions, watched = backend.functions, RecordingKernelTable(backend)
    stored = [str(d) for d in DTYPES if d in backend.dtypes()]
    backend.functions = watched
    try:
        for case in family_cases(family):
            sizes = [np.prod(shape, dtype=int) for shape in case.shapes]
            if max(sizes, default=0) > MAX_CASE_ELEMENTS:
                continue
            kernels: set[str] = set() if case.kernel is None else {case.kernel.name}
            for dtype in stored if every_dtype else case.dtypes:
                is_own = dtype in case.dtypes
                if kernels and all(
                    dtype in watched.ran[name] or not (is_own or dtype in KERNELS[name].accepts)
                    for name in kernels
                ):
                    continue
                watched.called.clear()
                run_case(case, dtype)
                kernels |= watched.called
    finally:
        backend.functions = functions
    return dict(watched.ran)


def run_case(case: Case, dtype: str) -> None:
    """Run a test case on a dtype; do nothing if the backend lacks a kernel or the dtype."""
    try:
        refused = plugrad.config.override("unsupported_dtype", "error")
        with np.errstate(all="ignore"), refused:
            arrays = case.draw(np.random.default_rng(0), dtype) if case.domains else []
            tensors = [x if x is None else plugrad.asarray(x) for x in arrays]
            case.op(*tensors, **case.attributes(dtype))
    except (KernelNotFound, UnsupportedDtype):
        return
    except Exception:
        if dtype in case.dtypes and dtype in plugrad.which().backend.dtypes():
            raise  # the row is made for the dtype


def measure_coverage() -> DtypesByKernel:
    """Run all test cases on the active backend; return the dtypes by kernel."""
    has = {c.kernel_name for c in plugrad.get_kernels_for_backend(plugrad.which().backend.name)}
    found: DtypesByKernel = {}
    for family in KERNEL_FAMILIES:
        ran = run_family(family, every_dtype=True)
        found |= {
            n: ran.get(n, set()) & KERNELS[n].accepts for n in family_kernels(family) if n in has
        }
    return found
