"""The pages of the site that are made of docstrings: which public name has its place on which page.

`docs/conf.py` writes them, as reStructuredText for autodoc, before the site is built. They are not
committed: the docstrings are.
"""

import inspect
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import plugrad
from consistency import matrix
from consistency.kernels_of_ops import describe_kernels as facts_of, is_op
from plugrad import cli, errors
from plugrad.extend import DType

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(
    path.parent.name
    for path in ROOT.glob("plugins/*/src/plugrad_*/__init__.py")
    if find_spec(path.parent.name)  # what is not installed has no page
)
NUMERICS_MODULES = [
    f"plugrad_numerics.{name}"
    for name in ("distributions", "filters", "integrate", "interpolate", "optimize", "special")
    if "plugrad_numerics" in PLUGINS
]
PUBLIC_MODULES = sorted(plugrad._PUBLIC_MODULE_NAMES - {"kernels"})
NN_MODULES = [
    f"plugrad_nn.{name}"
    for name in (
        "augment",
        "convert",
        "data",
        "initializers",
        "losses",
        "metrics",
        "schedules",
        "tfjs",
    )
]

# Where the names of `plugrad` are that are not ops: the longest prefix of where they are defined counts. Others are
# on a page of the module that defines them.
PAGE_OF_MODULE = {
    "plugrad.array_api": "dtypes",
    "plugrad.discovery": "backends",
    "plugrad.discovery.hooks": "plugins",
    "plugrad.discovery.packs": "plugins",
    "plugrad.engine.by_name": "registries",
    "plugrad.engine.custom": "derivatives",
    "plugrad.memory": "memory",
    "plugrad.registry": "registries",
    "plugrad.settings": "settings",
    "plugrad.tape.rules": "registries",
    "plugrad.tensor.backend.KernelConfig": "registries",
    "plugrad.tensor.backend.Memory": "memory",
    "plugrad.tensor.context": "backends",
    "plugrad.tensor.tensor": "tensor",
    "plugrad.transforms": "derivatives",
    "plugrad.types.dtype": "dtypes",
}
PAGE_TITLES = {
    "backends": "Backends: choose, list, synchronize",
    "constants": "Constants",
    "derivatives": "Derivatives",
    "dtypes": "Dtypes",
    "memory": "Memory",
    "plugins": "Plugins and hooks",
    "registries": "Registries of kernels and gradients",
    "settings": "plugrad.config",
    "tensor": "Tensor",
}
DTYPE_LEGEND = (
    "In the tables of kernels, dtypes are short: ``f32`` is float32, ``b`` bool, ``c64`` complex64; "
    "`Kernels, backends and dtypes <../kernels.html>`__ has all of them."
)


@dataclass(frozen=True)
class Entry:
    """A public object of the reference: its dotted path and its value."""

    path: str
    value: Any

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        own = inspect.isroutine(self.value) or inspect.isclass(self.value)
        return (inspect.getdoc(self.value) or "").partition("\n")[0] if own else ""


def public_names(module: ModuleType) -> list[Entry]:
    """Return the public names of a module, without its submodules."""
    listed = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    found = [Entry(f"{module.__name__}.{name}", getattr(module, name)) for name in listed]
    # The namespaces of plugrad-numerics are lists of names that other modules define.
    home = (
        module.__name__.partition(".")[0]
        if module.__name__ in NUMERICS_MODULES
        else module.__name__
    )
    first_party = module.__name__ == "plugrad" or module.__name__.startswith("plugrad.")
    return [
        entry
        for entry in found
        if not isinstance(entry.value, ModuleType)
        and (module is not errors or inspect.isclass(entry.value))
        and (first_party or hasattr(module, "__all__") or is_defined_in(entry.value, home))
    ]


def is_defined_in(value: object, package: str) -> bool:
    """Whether an object is defined in a package, not imported into it."""
    return str(getattr(value, "__module__", "")).startswith(package)


def page_of_entry(entry: Entry) -> str:
    """Return the page of the reference that documents a public name."""
    name = entry.path.rpartition(".")[2]
    if isinstance(entry.value, float | None):
        return "constants"
    module = str(getattr(entry.value, "__module__", None) or "plugrad")
    origin = f"{module}.{name}"
    if origin.startswith("plugrad.ops."):
        return origin.split(".")[2]
    prefixes = [p for p in PAGE_OF_MODULE if origin == p or origin.startswith(f"{p}.")]
    return PAGE_OF_MODULE[max(prefixes, key=len)] if prefixes else ".".join(module.split(".")[:2])


@cache
def entries_by_page() -> dict[str, list[Entry]]:
    """Return the public names that each page documents, by the name of the page."""
    pages: dict[str, list[Entry]] = defaultdict(list)
    for entry in public_names(plugrad):
        pages[page_of_entry(entry)].append(entry)
    for name in ("errors", *PUBLIC_MODULES):
        pages[f"plugrad.{name}"] += public_names(import_module(f"plugrad.{name}"))
    for name in ("plugrad.testing", *PLUGINS, *NN_MODULES, *NUMERICS_MODULES):
        pages[name] = public_names(import_module(name))
    return {page: entries for page, entries in pages.items() if entries}


@cache
def page_by_path() -> dict[str, str]:
    """Return the page of each public name, by dotted path."""
    return {entry.path: page for page, entries in entries_by_page().items() for entry in entries}


def is_documented(path: str) -> bool:
    """Whether the reference has a dotted path such as "plugrad.Tensor.to"."""
    return path in page_by_path() or path.rpartition(".")[0] in page_by_path()


def describe_op(op: object) -> list[str]:
    """Return the lines about the kernels of an op, or nothing if the object is no op."""
    return facts_of(op) if is_op(op) else []


# --- the text ------------------------------------------------------------------------------------


def underlined_title(title: str, line: str = "=") -> list[str]:
    """Return a title and the line below it."""
    return [title, line * len(title), ""]


def documented_alias(entry: Entry) -> str:
    """Return the path of the same object in `plugrad` itself, under which it is documented, or ""."""
    name = entry.path.rpartition(".")[2]
    for path in (f"plugrad.{name}", f"plugrad.errors.{name}"):
        if path in page_by_path() and path != entry.path:
            with suppress(AttributeError):
                if attrgetter(path.removeprefix("plugrad."))(plugrad) is entry.value:
                    return path
    return ""


def iter_entry_lines(entry: Entry) -> Iterator[str]:
    """Yield the lines that document a public name."""
    value = entry.value
    if other := documented_alias(entry):
        yield from (f".. py:data:: {entry.path}", "   :no-index-entry:", "")
        yield from (f"   The same as :py:obj:`{other}`.", "")
    elif inspect.isclass(value):
        is_error = issubclass(value, Exception)
        yield f".. auto{'exception' if is_error else 'class'}:: {entry.path}"
        yield from ("   :show-inheritance:", "") if is_error else ("   :members:", "")
    elif inspect.isroutine(value):
        yield from (f".. autofunction:: {entry.path}", "")
    else:
        yield from (f".. py:data:: {entry.path}", "")
        kind = type(value)
        if isinstance(value, DType):
            yield from (f"   A dtype of {value.itemsize} bytes." if value.itemsize else "", "")
        elif isinstance(value, float | str | Path | None):
            yield from (f"   {format_constant(value)}", "")
        elif kind.__module__.startswith("plugrad."):
            yield from (f"   An instance of :py:class:`~{kind.__module__}.{kind.__name__}`.", "")
            if not any(e.value is kind for entries in entries_by_page().values() for e in entries):
                yield from (f".. autoclass:: {kind.__module__}.{kind.__name__}", "   :members:", "")
        else:
            yield from (f"   A type, or a set of dtypes: ``{value!r}``.", "")


def format_constant(value: object) -> str:
    """Return the value of a constant as readers see it."""
    return "A file of the package." if isinstance(value, Path) else f"The value ``{value!r}``."


def page_introduction(page: str) -> tuple[str, str]:
    """Return the title of a page, and the text above its entries, from the docstring of its module."""
    if page in PAGE_TITLES:
        return PAGE_TITLES[page], ""
    name = page if page.startswith("plugrad") else f"plugrad.ops.{page}"
    first, _, rest = (inspect.getdoc(import_module(name)) or "").partition("\n")
    return (page if name == page else page.replace("_", " ").capitalize()), f"{first}\n{rest}"


def reference_page(page: str) -> str:
    """Return a page of the reference: its introduction, a table of contents and its entries."""
    title, text = page_introduction(page)
    entries = entries_by_page()[page]
    # Names in summaries are looked up there.
    space = page if page.startswith("plugrad.") else "plugrad"
    lines = [*underlined_title(title), f".. py:currentmodule:: {space}", "", text, ""]
    if any(is_op(entry.value) for entry in entries):
        lines += [DTYPE_LEGEND, ""]
    lines += [".. list-table::", "   :class: contents", "   :widths: 30 70", ""]
    for entry in entries:
        target = documented_alias(entry) or entry.path
        lines += [
            f"   * - :py:obj:`{entry.path.rpartition('.')[2]} <{target}>`",
            f"     - {entry.summary}",
        ]
    lines.append("")
    for entry in entries:
        lines += iter_entry_lines(entry)
    return "\n".join(lines)


def command_help(command: str) -> str:
    """Return the help text of ``plugrad COMMAND --help``."""
    printed = StringIO()
    with mock.patch.dict(os.environ, COLUMNS="80"), redirect_stdout(printed), suppress(SystemExit):
        cli.main([command, "--help"])
    return printed.getvalue()


def commands_page() -> str:
    """Return the page that documents the commands by their help texts."""
    lines = [
        *underlined_title("The command plugrad"),
        "The `guide <../../guide/cli.html>`__ has examples.",
        "",
    ]
    for name, summary in cli.COMMAND_SUMMARIES.items():
        lines += underlined_title(f"plugrad {name}", "-")
        lines += [f"{summary[0].upper()}{summary[1:]}.", "", ".. code-block:: text", ""]
        lines += [f"   {line}".rstrip() for line in command_help(name).splitlines()] + [""]
    return "\n".join(lines)


def index_page() -> str:
    """Return the page that links to all other pages of the reference."""
    ops = [
        page
        for page in entries_by_page()
        if not page.startswith("plugrad") and page not in PAGE_TITLES
    ]
    spaces = [page for page in entries_by_page() if page.startswith("plugrad.")]
    groups = {
        "Tensors, derivatives, backends": sorted(PAGE_TITLES),
        "Ops by family": sorted(ops),
        "Namespaces": sorted(spaces),
        "Plugins of this project": [
            page
            for page in sorted([*PLUGINS, *NN_MODULES, *NUMERICS_MODULES])
            if page in entries_by_page()
        ],
    }
    lines = [*underlined_title("All public names"), "Made of the docstrings.", ""]
    for title, pages in groups.items():
        lines += [*underlined_title(title, "-"), ".. toctree::", "   :maxdepth: 1", ""]
        lines += [*(f"   {page}" for page in pages), ""]
    return "\n".join(lines)


def all_pages() -> dict[str, str]:
    """Return the text of each page of the reference, by name."""
    return {
        **{page: reference_page(page) for page in entries_by_page()},
        "commands": commands_page(),
        "matrix": matrix.matrix_page(),
        "index": index_page(),
    }


def write_pages(folder: Path) -> None:
    """Write the pages into a folder and remove all others; Sphinx reads only changed files again."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{page}.rst": text for page, text in all_pages().items()}
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink() if path.is_file() else shutil.rmtree(path)
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
