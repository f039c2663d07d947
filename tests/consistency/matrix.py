"""The page of the site that shows kernels × backends × dtypes, with filters: made of the committed page of kernels."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from consistency.committed import SHORT, committed
from consistency.coverage import FAMILIES, contracts
from consistency.kernels_of_ops import anchor
from plugrad.types.dtype import DTYPES

DOCS = Path(__file__).parents[2] / "docs"
NAMES = {short: name for name, short in SHORT.items()}


def rows() -> list[tuple[str, str, dict[str, list[str]]]]:
    """Return (family, kernel, dtypes by backend) for each kernel; a backend that lacks it is absent."""
    known = committed()
    return [
        (
            family,
            kernel,
            {
                backend: [NAMES.get(short, short) for short in cell.split()]
                for backend, cell in known[kernel].items()
                if cell != "–"
            },
        )
        for family in FAMILIES
        for kernel in contracts(family)
    ]


def family_of(kernel: str) -> str:
    """Return the family of a kernel."""
    return next(family for family, name, _ in rows() if name == kernel)


def choice(name: str, label: str, anything: str, values: list[str]) -> str:
    """Return a filter with one of several values."""
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return (
        f'<label>{label} <select name="{name}"><option value="">{anything}</option>{options}'
        "</select></label>"
    )


def table() -> Iterator[str]:
    """Yield the lines of the page's HTML."""
    found = rows()
    backends = list(next(iter(committed().values())))
    dtypes = [str(d) for d in DTYPES]
    yield '<form id="filters" role="search">'
    yield '<label>Name <input type="search" name="text" placeholder="such as conv"></label>'
    yield choice("family", "Family", "all", FAMILIES)
    yield choice("backend", "Backend", "any", backends)
    yield choice("dtype", "Dtype", "any", dtypes)
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
        target = f"../kernels/{family}.html#{anchor(kernel)}"
        yield f'<tr data-family="{family}" data-kernel="{kernel}"><th scope="row">'
        yield f'<a href="{target}">{kernel}</a><small>{family}</small></th>'
        for backend in backends:
            names = ran.get(backend)
            listed = "" if names is None else " ".join(names)
            yield f'<td data-backend="{backend}" data-runs="{listed}" data-has="{int(names is not None)}">'
            yield "".join(
                f'<i class="{d}" title="{d}">{SHORT[d]}</i>' if d in (names or ()) else "<i></i>"
                for d in dtypes
            )
            yield "</td>"
        yield "</tr>"
    yield '</tbody></table><script src="../../_static/matrix.js"></script>'


def text() -> str:
    """Return the page as reStructuredText."""
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
            *(f"   {line}" for line in table()),
            "",
        )
    )
