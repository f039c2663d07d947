"""The page of the site that shows kernels × backends × dtypes, with filters: made of the committed page of kernels."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from consistency.committed import SHORT_DTYPE_NAMES, committed_kernel_table
from consistency.coverage import KERNEL_FAMILIES, family_kernels
from consistency.kernels_of_ops import kernel_anchor
from plugrad.types.dtype import DTYPES

DOCS_FOLDER = Path(__file__).parents[2] / "docs"
DTYPE_OF_SHORT_NAME = {short: name for name, short in SHORT_DTYPE_NAMES.items()}


def kernel_table_rows() -> list[tuple[str, str, dict[str, list[str]]]]:
    """Return (family, kernel, dtypes by backend) for each kernel; a backend that lacks it is absent."""
    known = committed_kernel_table()
    return [
        (
            family,
            kernel,
            {
                backend: [DTYPE_OF_SHORT_NAME.get(short, short) for short in cell.split()]
                for backend, cell in known[kernel].items()
                if cell != "–"
            },
        )
        for family in KERNEL_FAMILIES
        for kernel in family_kernels(family)
    ]


def family_of_kernel(kernel: str) -> str:
    """Return the family of a kernel."""
    return next(family for family, name, _ in kernel_table_rows() if name == kernel)


def html_select(name: str, label: str, anything: str, values: list[str]) -> str:
    """Return an HTML select element with an option for each value."""
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return (
        f'<label>{label} <select name="{name}"><option value="">{anything}</option>{options}'
        "</select></label>"
    )


def iter_table_html() -> Iterator[str]:
    """Yield the lines of HTML of the table of kernels."""
    found = kernel_table_rows()
    backends = list(next(iter(committed_kernel_table().values())))
    dtypes = [str(d) for d in DTYPES]
    yield '<form id="filters" role="search">'
    yield '<label>Name <input type="search" name="text" placeholder="such as conv"></label>'
    yield html_select("family", "Family", "all", KERNEL_FAMILIES)
    yield html_select("backend", "Backend", "any", backends)
    yield html_select("dtype", "Dtype", "any", dtypes)
    yield (
        '<label><select name="shows" aria-label="What is shown"><option value="">runs there</option>'
        '<option value="gaps">does not run there</option></select></label>'
    )
    yield '<button type="reset">Reset</button></form>'
    yield f'<p id="count" role="status">{len(found)} of {len(found)} kernels</p>'
    yield '<table class="matrix"><thead><tr><th scope="col">kernel</th>'
    yield "".join(f'<th scope="col" data-backend="{b}">{b}</th>' for b in backends)
    yield "</tr></thead><tbody>"
    for family, kernel, ran in found:
        target = f"../kernels/{family}.html#{kernel_anchor(kernel)}"
        yield f'<tr data-family="{family}" data-kernel="{kernel}"><th scope="row">'
        yield f'<a href="{target}">{kernel}</a><small>{family}</small></th>'
        for backend in backends:
            names = ran.get(backend)
            listed = "" if names is None else " ".join(names)
            yield f'<td data-backend="{backend}" data-runs="{listed}" data-has="{int(names is not None)}">'
            yield "".join(
                f'<i class="{d}" title="{d}">{SHORT_DTYPE_NAMES[d]}</i>'
                if d in (names or ())
                else "<i></i>"
                for d in dtypes
            )
            yield "</td>"
        yield "</tr>"
    yield '</tbody></table><script src="../../_static/matrix.js"></script>'


def matrix_page() -> str:
    """Return the page with the table of kernels, as reStructuredText."""
    title = "Matrix of kernels"
    return "\n".join(
        (
            ":html_theme.sidebar_secondary.remove:",
            "",
            title,
            "=" * len(title),
            "",
            "A filled cell is a dtype of the first input (of the result, where there is none) on which the kernel",
            "runs. `Kernels, backends and dtypes <../kernels.html>`__ has the same as text. The address remembers",
            "the filters, so that a choice can be sent on.",
            "",
            ".. raw:: html",
            "",
            *(f"   {line}" for line in iter_table_html()),
            "",
        )
    )
