"""The reference documents everything public: names, errors, kernels, commands, settings, hooks and more."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import plugrad
from consistency import reference
from consistency.kernels_of_ops import describe_kernels, is_op, kernels_of_op
from consistency.tfjs import tfjs_ops
from plugrad import cli, errors
from plugrad.discovery.hooks import HOOK_SPECIFICATIONS
from plugrad.extend import KERNELS

DOCS_FOLDER = Path(__file__).parents[2] / "docs"


def iter_public_paths() -> Iterator[str]:
    """Yield the dotted paths of the public names that `dir` lists."""
    for space in ("", *sorted(plugrad._PUBLIC_MODULE_NAMES - {"kernels"})):
        module = import_module(f"plugrad.{space}".rstrip("."))
        for name in dir(module):
            if not name.startswith("_") and not isinstance(getattr(module, name), ModuleType):
                yield f"{module.__name__}.{name}"


# What there is, and where a page says it: a pattern whose first group is the name.
REQUIRED_ENTRIES = {
    "names": (iter_public_paths, "api/*", r"^\.\. (?:auto|py:)\w+:: (plugrad\.[\w.]+)"),
    "errors": (
        lambda: (
            n for n, e in vars(errors).items() if inspect.isclass(e) and issubclass(e, Exception)
        ),
        "api/plugrad.errors",
        r"^\.\. autoexception:: plugrad\.errors\.(\w+)",
    ),
    "kernels": (lambda: first_party_kernels(), "reference/kernels/*.md", r"^## (\w+)$"),
    "rows": (lambda: first_party_kernels(), "reference/kernels.md", r"^\| (\w+)(?: \(\*\))? \|"),
    "gradients": (lambda: first_party_kernels(), "reference/gradients.md", r"^\| (\w+) \|"),
    "commands": (lambda: cli.COMMAND_SUMMARIES, "api/commands", r"^plugrad ([\w-]+)$"),
    "commands of the guide": (
        lambda: cli.COMMAND_SUMMARIES,
        "guide/cli.md",
        r"`plugrad ([\w-]+)[^`]*`",
    ),
    "settings": (
        lambda: (key.name for key in plugrad.config.keys()),  # noqa: SIM118 - a method of its own
        "reference/settings.md",
        r"^\| `([\w.]+)` \|",
    ),
    "hooks": (lambda: HOOK_SPECIFICATIONS, "reference/hooks.md", r"^## `(\w+)\("),
    "ops of TensorFlow.js": (tfjs_ops, "reference/tensorflow-js.md", r"^\| `([\w.]+)` \|"),
}


def first_party_kernels() -> list[str]:
    """Return the kernels of core, without those that tests register."""
    return [k.name for k in KERNELS.values() if k.rule.__module__.startswith("plugrad.kernels.")]


def page_texts(pages: str) -> str:
    """Return the texts of some pages, or of all pages made of docstrings."""
    if not pages.startswith("api/"):
        return "\n".join(path.read_text("utf-8") for path in sorted(DOCS_FOLDER.glob(pages)))
    made = reference.all_pages()
    return "\n".join(made.values()) if pages == "api/*" else made[pages.removeprefix("api/")]


def missing_entries(kind: str, text: str) -> list[str]:
    """Return the entries of a kind that a text lacks."""
    wanted, _, pattern = REQUIRED_ENTRIES[kind]
    return sorted({*wanted()} - {*re.findall(pattern, text, re.M)})


@pytest.mark.parametrize("kind", REQUIRED_ENTRIES)
def test_every_public_entry_is_in_the_reference(kind):
    assert len({*REQUIRED_ENTRIES[kind][0]()}) > 5
    assert missing_entries(kind, page_texts(REQUIRED_ENTRIES[kind][1])) == []


@pytest.mark.parametrize("kind", REQUIRED_ENTRIES)
def test_entries_removed_from_a_page_are_reported(kind):
    wanted, pages, _ = REQUIRED_ENTRIES[kind]
    gone = max({*wanted()}, key=len)
    without = re.sub(rf"\b{re.escape(gone)}\b", "", page_texts(pages))
    assert gone in missing_entries(kind, without)


def test_every_page_is_reached_from_the_index():
    listed = {*re.findall(r"^   ([\w.]+)$", reference.all_pages()["index"], re.M)}
    assert reference.all_pages().keys() - listed - {"index", "commands", "matrix"} == set()


REQUIRED_WORDS = {
    "shape": r"shape|ax[ei]s|elements|[01]-d|matri|vector|length",
    "dtype": "dtype",
    "errors": r"^Raises:$",
    "gradient": "gradient",
    "backends": "Dtypes on|backend",
}


@pytest.mark.parametrize("what", REQUIRED_WORDS)
def test_reference_of_ops_contains_required_words(what):
    silent = []
    for page, entries in reference.entries_by_page().items():
        for entry in entries:
            if not is_op(entry.value):
                continue
            result = inspect.signature(entry.value).return_annotation
            # What is no tensor, such as a shape, has neither a gradient nor a backend.
            if result != "None" and ("Tensor" in result or what in ("shape", "dtype", "errors")):
                told = [reference.page_introduction(page)[1], inspect.getdoc(entry.value) or ""]
                text = "\n".join([*told, *describe_kernels(entry.value)])
                if not re.search(REQUIRED_WORDS[what], text, re.M | re.I):
                    silent.append(entry.path)
    assert silent == []


def test_kernels_of_an_op_include_those_of_its_code_and_of_its_example():
    assert kernels_of_op(plugrad.relu) == ["Relu"]
    assert kernels_of_op(plugrad.max) == ["Max", "Any"]  # of bools
    assert {"Sub", "Multiply", "Add"} <= {*kernels_of_op(plugrad.moving_average)}  # operators
    assert kernels_of_op(plugrad.broadcast_shapes) == []
    (line,) = [line for line in describe_kernels(plugrad.relu) if "Relu" in line]
    assert "kernels/activation.html#relu>" in line
    assert any(
        "none: they are constant between jumps" in line for line in describe_kernels(plugrad.floor)
    )
