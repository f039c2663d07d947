"""Begin a release: set the version wherever it stands, and make a section of the changelog from changes/.

python .ci/release.py 0.2.0
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

KINDS = {"feature": "New", "fix": "Fixed", "internal": "For developers of plugrad"}
HEADING = "# Changelog\n"


def list_files_with_version(root: Path) -> list[Path]:
    """Return the files that name the version."""
    listed = [root / "pyproject.toml", root / "core/pyproject.toml"]
    listed += sorted(root.glob("plugins/*/pyproject.toml"))
    return [*listed, root / "core/src/plugrad/__init__.py", root / "CITATION.cff"]


def replace_version(text: str, new: str) -> str:
    """Return a file's text with the new version: its own, and that of distributions that it requires."""
    text = re.sub(r'^(__version__ = |version = )"[^"]+"', rf'\1"{new}"', text, flags=re.M)
    text = re.sub(r"^version: .+$", f"version: {new}", text, flags=re.M)
    return re.sub(r'"(plugrad[\w-]*(?:\[[\w,]+\])?)(==|~=)[\d.]+', rf'"\1\g<2>{new}', text)


def list_fragments(root: Path) -> list[Path]:
    """Return the files of changes/, in the order of their numbers."""
    found = [path for path in (root / "changes").glob("*.md") if path.name[0].isdigit()]
    return sorted(found, key=lambda path: (int(path.name.split(".")[0]), path.name))


def format_changelog_section(files: list[Path], new: str, day: str) -> str:
    """Return a section of the changelog; each paragraph of a file of changes/ is one change."""
    lines = [f"## {new} ({day})", ""]
    for kind, title in KINDS.items():
        own = [path for path in files if path.name.split(".")[1] == kind]
        if own:
            lines += [f"### {title}", ""]
        for path in own:
            lines += [path.read_text("utf-8").strip(), ""]
    return "\n".join(lines)


def release(root: Path, new: str, day: str) -> None:
    """Write the version and the changelog, and remove the fragments."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", new):
        raise SystemExit(f"{new!r} is not a version such as 0.2.0")
    files = list_fragments(root)
    unknown = [path.name for path in files if path.name.split(".")[1] not in KINDS]
    if unknown or not files:
        raise SystemExit(f"changes/ has no fragments, or some of an unknown kind: {unknown}")
    api = root / "tests/consistency/extend_api.txt"
    api.write_text(
        api.read_text("utf-8").replace(", not released\n", f", released with {new}\n", 1), "utf-8"
    )
    for path in list_files_with_version(root):
        path.write_text(replace_version(path.read_text("utf-8"), new), "utf-8")
    log = root / "CHANGELOG.md"
    older = log.read_text("utf-8").removeprefix(HEADING) if log.exists() else ""
    log.write_text(f"{HEADING}\n{format_changelog_section(files, new, day)}{older}", "utf-8")
    for path in files:
        path.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    today = datetime.now(UTC).date().isoformat()
    release(Path(__file__).parents[1], sys.argv[1], today)
