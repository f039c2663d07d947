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
PAGES_WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text("utf-8")]
EXAMPLE_DATA_FILES = [p for p in (ROOT / "examples" / "data").iterdir() if p.suffix != ".md"]
# A program that is told from its first line to its last: its blocks without prompts run too.
PROGRAM_PAGE = ROOT / "docs" / "explanation" / "in-200-lines.md"
# A whole program without prompts, which can be copied, and below it what it prints.
PRINTING_BLOCK_PATTERN = re.compile(
    r"^```python\n(?!>>>)([^`]*)^```\n\n```text\n([^`]*)^```$", re.M
)
# The packs that a page is about need not be installed.
IMPORTED_LIBRARY_PATTERN = re.compile(r"^>>> from (plugrad_numerics) import", re.M)
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
DECIMAL_PATTERN = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?")


@pytest.fixture
def isolated_page(monkeypatch, tmp_path, backend):
    """Run a page in the folder of the data, on a backend, with default settings; remove what it registers."""
    for data in EXAMPLE_DATA_FILES:
        (tmp_path / data.name).symlink_to(data)
    monkeypatch.chdir(tmp_path)
    open_installed()
    restore = snapshot_registries()
    # Pages say what happens to a dtype that a backend lacks. Here the warning would be an error.
    with plugrad.config.override("unsupported_dtype", "silent"):
        yield backend
    _close_example_backend()
    restore()


class TolerantOutputChecker(doctest.OutputChecker):
    """Compares output with that of the cpu; the name of the device and the last digits may differ."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        if self.backend == "cpu":
            return False
        here = f"'{self.backend}:0'"
        plain = re.sub(rf"(?<=.),\s+device={here}", "", got).replace(here, "'cpu:0'")
        shown, found = decimals_in(want), decimals_in(plain)
        same = len(shown) == len(found) and np.allclose(found, shown, rtol=1e-4, atol=1e-5)
        wanted, plain = (
            (DECIMAL_PATTERN.sub("0.", text) for text in (want, plain)) if same else (want, plain)
        )
        return super().check_output(
            without_array_padding(wanted), without_array_padding(plain), optionflags
        )


def decimals_in(text: str) -> list[float]:
    """Return the numbers with a decimal point in the output on a page."""
    return [float(number) for number in DECIMAL_PATTERN.findall(text)]


def without_array_padding(text: str) -> str:
    """Return a text without the spaces with which NumPy aligns numbers."""
    return re.sub(r"(?<=[\[(,])\s+|\s+(?=[\]),])", "", text)


def run_examples(page: Path, text: str, known: dict[str, object], backend: str) -> None:
    """Run the examples in a text; `known` maps names to values before and after."""
    line = page.read_text("utf-8").partition(text)[0].count("\n")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), line)
    test.globs = known
    report: list[str] = []
    runner = doctest.DocTestRunner(
        TolerantOutputChecker(backend), optionflags=DOCTEST_FLAGS, verbose=False
    )
    done = runner.run(test, out=report.append, clear_globs=False)
    assert done.failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page, isolated_page):
    known = {"__name__": "__main__"}
    for package in IMPORTED_LIBRARY_PATTERN.findall(page.read_text("utf-8")):
        pytest.importorskip(package)
    for program, shown in PRINTING_BLOCK_PATTERN.findall(page.read_text("utf-8")):
        with redirect_stdout(StringIO()) as printed:
            exec(program, {"__name__": "__main__"})
        assert TolerantOutputChecker(isolated_page).check_output(
            shown, printed.getvalue(), DOCTEST_FLAGS
        ), printed.getvalue()
    if page == PROGRAM_PAGE:
        for block in python_blocks(page):
            run_examples(page, block, known, isolated_page) if block.startswith(">>>") else exec(
                block, known
            )
    else:
        run_examples(page, page.read_text("utf-8"), known, isolated_page)
    for theirs, ours in iter_translation_table(page):
        value = evaluate(ours, known, isolated_page)
        if page.stem == "from-numpy" and value is not None:
            assert_same_result(evaluate(theirs, known, isolated_page), value)


def python_blocks(page: Path) -> list[str]:
    """Return the code blocks of Python on a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def iter_translation_table(page: Path) -> Iterator[tuple[str, str]]:
    """Yield (code of the other library, code of plugrad) from the table on a migration page."""
    if not page.stem.startswith("from-"):
        return
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and re.fullmatch(r"`[^`]+`", cells[2]):
            yield cells[1].strip("`"), cells[2].strip("`")


def evaluate(code: str, known: dict[str, object], backend: str) -> object:
    """Return the value of an expression in a table; the choice of a backend is undone."""
    with plugrad.use(backend):
        return eval(code, known)


def assert_same_result(theirs: object, ours: object) -> None:
    """Raise unless results of NumPy and plugrad are equal; generators are not compared."""
    if isinstance(ours, tuple):
        for a, b in zip(theirs, ours, strict=True):
            assert_same_result(a, b)
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
def test_outputs_of_backends_may_differ_in_name_and_last_digits(printed, is_same):
    shown = "tensor([1. , 2.5], dtype=float32)\n"
    assert (
        TolerantOutputChecker("wasm").check_output(shown, f"{printed}\n", DOCTEST_FLAGS) == is_same
    )


def test_migration_tables_have_rows():
    counts = {
        page.stem: len(list(iter_translation_table(page)))
        for page in PAGES
        if list(iter_translation_table(page))
    }
    names = ("numpy", "pytorch", "keras", "jax", "tensorflow-js")
    assert counts.keys() == {f"from-{name}" for name in names}
    assert min(counts.values()) > 20


def test_the_cookbook_has_40_answers_that_run():
    page = (ROOT / "docs" / "guide" / "cookbook.md").read_text("utf-8")
    answers = [answer for answer in page.split("\n**How ")[1:] if ">>>" in answer]
    assert len(answers) >= 40


def test_the_readme_begins_with_a_whole_program():
    assert len(PRINTING_BLOCK_PATTERN.findall(PAGES[0].read_text("utf-8"))) == 1


def test_program_has_at_most_200_lines():
    code = [block for block in python_blocks(PROGRAM_PAGE) if not block.startswith(">>>")]
    lines = [line for block in code for line in block.splitlines() if line.strip()]
    assert 150 < len(lines) <= 200


def _close_example_backend():
    """Close and unregister the backend of the examples, so that pages do not affect each other."""
    for backend in opened_backends():
        if backend.name == "acme":
            plugrad.close_backend(backend)
    state.added[:] = [plugin for plugin in state.added if plugin.name != "acme"]
    plugrad.backends(refresh=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_are_not_broken(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_notes_have_unique_numbers():
    notes = [page for page in PAGES if page.parent.name == "notes" and page.stem != "index"]
    numbers = [note.stem[:4] for note in notes]
    assert notes
    assert len(set(numbers)) == len(numbers)
    assert all(note.read_text("utf-8").startswith(f"# {note.stem[:4]}: ") for note in notes)
