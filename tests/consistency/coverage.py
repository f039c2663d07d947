"""Find out which kernels each backend runs, and on which dtypes: by running the tables of families.

A family's rows are those of the conformance kit's table and those of its test module.
"""

from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import plugrad
from families.case import Case, from_table
from plugrad import kernels
from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.extend import KERNELS
from plugrad.tensor.backend import Backend
from plugrad.types.dtype import DTYPES

FAMILIES = sorted(p.stem for p in Path(kernels.__file__).parent.glob("[!_]*.py"))
LARGE = 4096  # elements; larger rows are about speed and limits, not about dtypes

Ran = dict[str, set[str]]  # dtypes by kernel


def contracts(family: str) -> list[str]:
    """Return the kernels of one of core's families in the order of their file."""
    return [k.name for k in KERNELS.values() if k.rule.__module__ == f"plugrad.kernels.{family}"]


def declared() -> list[str]:
    """Return the kernels of all of core's families."""
    return [name for family in FAMILIES for name in contracts(family)]


def cases_in(value: object) -> Iterator[Case]:
    """Yield the rows in a module's variable."""
    if isinstance(value, Case):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from cases_in(part)


def cases_of(family: str) -> list[Case]:
    """Return the rows of a family, those of the conformance kit first."""
    own = vars(import_module(f"families.test_{family}")).values()
    found = [*from_table(family), *(c for value in own for c in cases_in(value))]
    return list({id(case): case for case in found}.values())


class Watched(dict):
    """A backend's functions that remember which of them ran on which dtype."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.functions = backend.functions
        self.ran: Ran = defaultdict(set)
        self.called: set[str] = set()
        """The kernels that have run since it was emptied."""

    def __missing__(self, name: str) -> Any:
        function = self.functions[name]

        def watched(*arrays: Any, **attrs: Any) -> Any:
            result = function(*arrays, **attrs)
            self.called.add(name)
            given = next((a for a in arrays if hasattr(a, "dtype")), None)
            first = result if given is None else given
            self.ran[name].add(str(plugrad.as_dtype(first.dtype)))
            return result

        return watched


def ran_in(family: str, *, every_dtype: bool = False) -> Ran:
    """Return the dtypes on which the active backend runs the kernels of a family's rows.

    Rows run on their own dtypes, or on `every_dtype` that the backend has, except where each kernel that
    a row runs has run on the dtype in rows before it, or does not accept it and the row is not made for it.
    """
    backend = plugrad.which().backend
    functions, watched = backend.functions, Watched(backend)
    stored = [str(d) for d in DTYPES if d in backend.dtypes()]
    backend.functions = watched
    try:
        for case in cases_of(family):
            sizes = [np.prod(shape, dtype=int) for shape in case.shapes]
            if max(sizes, default=0) > LARGE:
                continue
            kernels: set[str] = set()
            for dtype in stored if every_dtype else case.dtypes:
                is_own = dtype in case.dtypes
                if kernels and all(
                    dtype in watched.ran[name] or not (is_own or dtype in KERNELS[name].accepts)
                    for name in kernels
                ):
                    continue
                watched.called.clear()
                run(case, dtype)
                kernels |= watched.called
    finally:
        backend.functions = functions
    return dict(watched.ran)


def run(case: Case, dtype: str) -> None:
    """Run a row on a dtype; that it refuses the dtype, or that the backend lacks a kernel, is an answer too."""
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


def coverage() -> Ran:
    """Return the dtypes on which the active backend runs each kernel of core."""
    has = {c.kernel_name for c in plugrad.get_kernels_for_backend(plugrad.which().backend.name)}
    found: Ran = {}
    for family in FAMILIES:
        ran = ran_in(family, every_dtype=True)
        found |= {n: ran.get(n, set()) & KERNELS[n].accepts for n in contracts(family) if n in has}
    return found
