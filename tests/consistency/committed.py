"""Read the committed page of kernels: what each backend is known to have."""

from functools import cache
from pathlib import Path

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
