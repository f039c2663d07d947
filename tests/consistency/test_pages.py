"""Every example on the pages that people read runs on every backend and prints what it says."""

import doctest
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import plugrad
from installed import open_installed
from plugrad.discovery.loading import opened_backends
from plugrad.discovery.state import state
from plugrad.registry.transaction import snapshot_registries

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text("utf-8")]
DATA = [p for p in (ROOT / "examples" / "data").iterdir() if p.suffix != ".md"]
# A program that is told from its first line to its last: its blocks without prompts run too.
PROGRAM = ROOT / "docs" / "explanation" / "in-200-lines.md"
# A whole program without prompts, which can be copied, and below it what it prints.
PRINTED = re.compile(r"^```python\n(?!>>>)([^`]*)^```\n\n```text\n([^`]*)^```$", re.M)
# The packs that a page is about need not be installed.
IMPORTED = re.compile(r"^>>> from (plugrad_numerics) import", re.M)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")


@pytest.fixture
def alone(monkeypatch, tmp_path, backend):
    """Run a page beside the data, on a backend with the settings of a user, and leave nothing behind."""
    for data in DATA:
        (tmp_path / data.name).symlink_to(data)
    monkeypatch.chdir(tmp_path)
    open_installed()
    restore = snapshot_registries()
    # Pages say what happens to a dtype that a backend lacks. Here the warning would be an error.
    with plugrad.config.override("unsupported_dtype", "silent"):
        yield backend
    _close_acme()
    restore()


class OnAnyBackend(doctest.OutputChecker):
    """Compares with what a page shows, which is printed on cpu: the device may be another one, and the last digits."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        if self.backend == "cpu":
            return False
        here = f"'{self.backend}:0'"
        plain = re.sub(rf"(?<=.),\s+device={here}", "", got).replace(here, "'cpu:0'")
        shown, found = numbers(want), numbers(plain)
        same = len(shown) == len(found) and np.allclose(found, shown, rtol=1e-4, atol=1e-5)
        wanted, plain = (
            (NUMBER.sub("0.", text) for text in (want, plain)) if same else (want, plain)
        )
        return super().check_output(unspaced(wanted), unspaced(plain), optionflags)


def numbers(text: str) -> list[float]:
    """Return the numbers with a point in what a page shows."""
    return [float(number) for number in NUMBER.findall(text)]


def unspaced(text: str) -> str:
    """Remove the spaces with which NumPy aligns numbers."""
    return re.sub(r"(?<=[\[(,])\s+|\s+(?=[\]),])", "", text)


def run(page: Path, text: str, known: dict[str, object], backend: str) -> None:
    """Run the examples in a text; `known` has their names before and after."""
    line = page.read_text("utf-8").partition(text)[0].count("\n")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), line)
    test.globs = known
    report: list[str] = []
    runner = doctest.DocTestRunner(OnAnyBackend(backend), optionflags=FLAGS, verbose=False)
    done = runner.run(test, out=report.append, clear_globs=False)
    assert done.failed == 0, "".join(report)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page, alone):
    known = {"__name__": "__main__"}
    for package in IMPORTED.findall(page.read_text("utf-8")):
        pytest.importorskip(package)
    for program, shown in PRINTED.findall(page.read_text("utf-8")):
        with redirect_stdout(StringIO()) as printed:
            exec(program, {"__name__": "__main__"})
        assert OnAnyBackend(alone).check_output(shown, printed.getvalue(), FLAGS), (
            printed.getvalue()
        )
    if page == PROGRAM:
        for block in blocks(page):
            run(page, block, known, alone) if block.startswith(">>>") else exec(block, known)
    else:
        run(page, page.read_text("utf-8"), known, alone)
    for theirs, ours in table(page):
        value = evaluated(ours, known, alone)
        if page.stem == "from-numpy" and value is not None:
            same(evaluated(theirs, known, alone), value)


def blocks(page: Path) -> list[str]:
    """Return the blocks of Python on a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def table(page: Path) -> Iterator[tuple[str, str]]:
    """Yield (code of the other library, code of plugrad) of the table on a page for newcomers from elsewhere."""
    if not page.stem.startswith("from-"):
        return
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and re.fullmatch(r"`[^`]+`", cells[2]):
            yield cells[1].strip("`"), cells[2].strip("`")


def evaluated(code: str, known: dict[str, object], backend: str) -> object:
    """Return the value of an expression of a table; a choice of the backend ends with it."""
    with plugrad.use(backend):
        return eval(code, known)


def same(theirs: object, ours: object) -> None:
    """Compare what NumPy and plugrad give; generators and the like have nothing to compare."""
    if isinstance(ours, tuple):
        for a, b in zip(theirs, ours, strict=True):
            same(a, b)
    elif isinstance(ours, plugrad.Tensor | np.ndarray | list):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("printed", "is_same"),
    [
        ("tensor([1.  , 2.50001], dtype=float32, device='wasm:0')", True),
        ("tensor([1. , 2.6], dtype=float32, device='wasm:0')", False),
        ("tensor([1. , 2.5], dtype=float64, device='wasm:0')", False),
        ("tensor([1. , 2.5], dtype=float32, device='webgpu:0')", False),
        ("tensor([1. , 2.5, 3. ], dtype=float32, device='wasm:0')", False),
    ],
)
def test_another_backend_may_differ_in_its_name_and_in_the_last_digits(printed, is_same):
    shown = "tensor([1. , 2.5], dtype=float32)\n"
    assert OnAnyBackend("wasm").check_output(shown, f"{printed}\n", FLAGS) == is_same


def test_tables_for_newcomers_have_rows():
    counts = {page.stem: len(list(table(page))) for page in PAGES if list(table(page))}
    names = ("numpy", "pytorch", "keras", "jax", "tensorflow-js")
    assert counts.keys() == {f"from-{name}" for name in names}
    assert min(counts.values()) > 20


def test_the_cookbook_has_40_answers_that_run():
    page = (ROOT / "docs" / "guide" / "cookbook.md").read_text("utf-8")
    answers = [answer for answer in page.split("\n**How ")[1:] if ">>>" in answer]
    assert len(answers) >= 40


def test_the_readme_begins_with_a_whole_program():
    assert len(PRINTED.findall(PAGES[0].read_text("utf-8"))) == 1


def test_program_has_at_most_200_lines():
    code = [block for block in blocks(PROGRAM) if not block.startswith(">>>")]
    lines = [line for block in code for line in block.splitlines() if line.strip()]
    assert 150 < len(lines) <= 200


def _close_acme():
    """Close the backend that pages bring, and forget it, so that pages do not see each other."""
    for backend in opened_backends():
        if backend.name == "acme":
            plugrad.close_backend(backend)
    state.added[:] = [plugin for plugin in state.added if plugin.name != "acme"]
    plugrad.backends(refresh=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_notes_have_numbers_of_their_own():
    notes = [page for page in PAGES if page.parent.name == "notes" and page.stem != "index"]
    numbers = [note.stem[:4] for note in notes]
    assert notes
    assert len(set(numbers)) == len(numbers)
    assert all(note.read_text("utf-8").startswith(f"# {note.stem[:4]}: ") for note in notes)
