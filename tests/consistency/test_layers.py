"""Imports run in one direction: ops → kernels ← gradients, kernels → engine, and plugins know two modules of core."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core" / "src" / "plugrad"
PLUGINS = sorted(path for path in ROOT.glob("plugins/*/src/plugrad_*") if path.is_dir())
FAMILIES = sorted(path.stem for path in (CORE / "kernels").glob("*.py") if path.stem != "__init__")
LAYERS = ("kernels", "ops", "gradients")


def imports(path, *, at_import_only=False):
    """Return the modules that a file imports, as dotted names; ``from a import b`` gives both a and a.b.

    What stands under ``if TYPE_CHECKING`` does not run and does not count.
    """
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if at_import_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text("utf-8")))
    return found


def within(modules, package):
    """Return the modules that lie in a package."""
    return {m for m in modules if m == package or m.startswith(f"{package}.")}


def files(layer):
    return sorted((CORE / layer).glob("*.py"))


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", files("kernels"), ids=name)
def test_contracts_import_neither_ops_nor_gradients(path):
    found = imports(path)
    assert not within(found, "plugrad.ops")
    assert not within(found, "plugrad.gradients")
    allowed = {
        "plugrad.kernels",
        "plugrad.kernel",
        "plugrad.dtype",
        "plugrad.errors",
        "plugrad.shapes",
        "plugrad.tensor",
    }
    modules = {".".join(m.split(".")[:2]) for m in within(found, "plugrad")} - {"plugrad"}
    assert modules <= allowed


@pytest.mark.parametrize("path", files("ops"), ids=name)
def test_ops_import_no_gradients_and_no_registries(path):
    found = imports(path)
    assert not within(found, "plugrad.gradients")
    assert not within(found, "plugrad.registry")
    assert not within(found, "plugrad.extend")


@pytest.mark.parametrize("path", files("gradients"), ids=name)
def test_gradients_import_contracts_and_ops_and_no_backend(path):
    found = imports(path)
    for package in (
        "plugrad.backend",
        "plugrad.discovery",
        "plugrad.selection",
        "plugrad.registry",
        "plugrad.extend",
    ):
        assert not within(found, package)


@pytest.mark.parametrize("path", files("host"), ids=name)
def test_bodies_on_the_host_import_contracts_and_run_nothing(path):
    found = imports(path)
    for package in ("plugrad.ops", "plugrad.gradients", "plugrad.engine", "plugrad.tensor"):
        assert not within(found, package)


@pytest.mark.parametrize("path", sorted(CORE.glob("*.py")), ids=name)
def test_machinery_knows_no_family_beyond_its_need(path):
    """Of the core modules, only those that make or sum tensors call contracts, and none knows gradients."""
    if path.stem == "__init__":
        return
    found = imports(path)
    assert not within(found, "plugrad.gradients")
    if path.stem in (
        "kernel",
        "registry",
        "backend",
        "scan",
        "manifest",
        "plugin",
        "discovery",
        "loading",
        "packs",
        "hooks",
        "hook_manager",
        "fallback",
        "settings",
        "config",
        "errors",
        "dtype",
        "shapes",
        "scope",
    ):
        assert not within(found, "plugrad.ops")
        assert not within(found, "plugrad.kernels")


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=name)
def test_core_imports_no_plugin_and_names_none(path):
    found = imports(path)
    assert not [m for m in found if m.startswith("plugrad_")]
    text = path.read_text("utf-8")
    assert re.findall(r"plugrad[_-](?:cpu|wasm|webgpu)\b", _without_docstrings(text)) == []


def _without_docstrings(text):
    """Return the code of a file; examples in docstrings may name what is installed."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [
                part
                for part in body
                if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            ] or [ast.Pass()]
    return ast.unparse(tree)


@pytest.mark.parametrize(
    "path", [p for plugin in PLUGINS for p in sorted(plugin.rglob("*.py"))], ids=name
)
def test_plugins_import_extend_and_contracts_and_nothing_else_of_core(path):
    own = path.relative_to(ROOT).parts[3]
    found = imports(path)
    core = within(found, "plugrad") - {"plugrad"}
    wrong = core - within(core, "plugrad.extend") - within(core, "plugrad.kernels")
    assert not wrong
    assert not [m for m in found if m.startswith("plugrad_") and m.split(".")[0] != own]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda path: path.name)
def test_importing_a_plugin_does_not_import_its_library(plugin):
    """The package itself names a factory; what it needs is imported when the factory is called."""
    heavy = {"numpy", "wgpu", "wasmtime", "cffi"}
    found = imports(plugin / "__init__.py", at_import_only=True)
    assert not {m.split(".")[0] for m in found} & heavy
    for module in within(found, plugin.name) - {plugin.name}:
        path = plugin.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if path.is_file():
            assert not {m.split(".")[0] for m in imports(path, at_import_only=True)} & (
                heavy - {"numpy"}
            )


def test_families_are_found():
    assert {"unary", "binary", "convolution"} <= set(FAMILIES)
    assert len(PLUGINS) == 3
