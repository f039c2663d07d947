"""Read the committed page of kernels: what each backend is known to have."""

from functools import cache
from pathlib import Path

from plugrad.types.dtype import DTYPES

SHORT = {
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
def committed() -> dict[str, dict[str, str]]:
    """Return the cells: {kernel: {backend: dtypes, or "–" for none}}."""
    found: dict[str, dict[str, str]] = {}
    backends: list[str] = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| kernel"):
            backends = cells[1:]
        elif line.startswith("|") and not line.startswith("|---"):
            found[cells[0].removesuffix(" (*)")] = dict(zip(backends, cells[1:], strict=True))
    return found


def runs(kernel: str, backend: str, dtype: str) -> bool:
    """Whether a backend is known to run a kernel on a dtype."""
    return SHORT[dtype] in committed().get(kernel, {}).get(backend, "").split()
