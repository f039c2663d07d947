"""Read the committed table of kernels: the dtypes that each backend supports."""

from functools import cache
from pathlib import Path

from plugrad.types.dtype import DTYPES

SHORT_DTYPE_NAMES = {
    **{str(d): str(d) for d in DTYPES},
    "bool": "b",
    "string": "s",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
    "complex64": "c64",
    "complex128": "c128",
}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kernels.md"


@cache
def committed_kernel_table() -> dict[str, dict[str, str]]:
    """Return the dtypes that the committed page lists: {kernel: {backend: dtypes, or "–" for none}}."""
    found: dict[str, dict[str, str]] = {}
    backends: list[str] = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| kernel"):
            backends = cells[1:]
        elif line.startswith("|") and not line.startswith("|---"):
            found[cells[0].removesuffix(" (*)")] = dict(zip(backends, cells[1:], strict=True))
    return found


def is_listed(kernel: str, backend: str, dtype: str) -> bool:
    """Whether the committed page says that a backend runs a kernel on a dtype."""
    return (
        SHORT_DTYPE_NAMES[dtype]
        in committed_kernel_table().get(kernel, {}).get(backend, "").split()
    )
