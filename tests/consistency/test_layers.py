"""Imports run in one direction, without cycles, and plugins import only two modules of core."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from consistency.imports import import_cycles, import_graph, iter_lazy_imports, module_files

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "core" / "src"
CORE_FOLDER = SOURCE / "plugrad"
PLUGIN_FOLDERS = sorted(path for path in ROOT.glob("plugins/*/src/plugrad_*") if path.is_dir())
FAMILIES = sorted(
    path.stem for path in (CORE_FOLDER / "kernels").glob("*.py") if path.stem != "__init__"
)

LAYERS = (
    ("interruptions",),
    ("garbage",),
    ("errors", "importing"),
    ("absent",),
    ("deprecation",),
    ("types",),
    ("settings",),
    ("tensor",),
    ("contract",),
    ("kernels",),
    ("registry",),
    ("tape",),
    ("host",),
    ("discovery",),
    ("engine",),
    ("ops",),
    ("transforms",),
    ("gradients", "batching", "composites"),
    ("graph",),
    ("passes",),
    ("tracing",),
    ("pictures",),
    ("optimizers", "memory", "profiling", "array_api", "saving", "einops"),
    ("fft", "fused", "image", "linalg", "losses", "random", "signal", "sparse", "string"),
    ("graph_models",),
    ("tfjs",),
    ("extend",),
    ("",),  # the public page
    ("testing",),
    ("cli", "__main__"),
)
"""The packages and modules of core; each imports only from those above it."""
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}
LAYERS_OF_PLUGINS = {
    "plugrad_webgpu": (
        ("driver",),
        ("shaders",),
        ("memory",),
        ("algorithms",),
        ("device", "custom", "declare"),
        ("kernels",),
        ("halves", "tuning"),
        ("narrow",),
        ("recording",),
        ("entry",),
        ("sharing",),
        ("",),  # the public page
    ),
}
"""The packages and modules of plugins that consist of packages, in the same order."""
LAZY_LIBRARIES = {"numpy", "wgpu", "wasmtime", "cffi"}


def find_imports(path, *, at_import_only=False):
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
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text("utf-8")))
    return found


def modules_in_package(modules, package):
    """Return the modules that lie in a package."""
    return {m for m in modules if m == package or m.startswith(f"{package}.")}


def relative_path(path):
    return str(path.relative_to(ROOT))


def layer_index(module):
    """Return the index of the layer of a module of core."""
    return RANKS[module.removeprefix("plugrad").removeprefix(".").partition(".")[0]]


# --- circles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [SOURCE, *(p.parent for p in PLUGIN_FOLDERS)],
    ids=lambda s: relative_path(s).replace("/src", ""),
)
def test_files_have_no_import_cycles(source):
    assert import_cycles(import_graph(source)) == []


def test_import_cycle_is_detected(tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    import b")
    (tmp_path / "b.py").write_text("if TYPE_CHECKING:\n    from c import C")
    (tmp_path / "c.py").write_text("import a")
    (tmp_path / "d.py").write_text("import a")
    assert import_cycles(import_graph(tmp_path)) == [["a", "b", "c"]]


# --- layers ---------------------------------------------------------------------------------------


def test_every_module_has_a_layer():
    tops = {
        m.partition(".")[2].partition(".")[0]
        for m in modules_in_package(module_files(SOURCE), "plugrad")
    }
    assert tops == RANKS.keys()


def test_imports_lead_to_layers_above():
    edges = import_graph(SOURCE)
    upwards = {
        module: sorted(m for m in edges[module] if layer_index(m) > layer_index(module))
        for module in modules_in_package(module_files(SOURCE), "plugrad")
    }
    assert {module: below for module, below in upwards.items() if below} == {}


@pytest.mark.parametrize("plugin", PLUGIN_FOLDERS, ids=lambda path: path.name)
def test_packages_of_plugins_import_in_one_direction(plugin):
    """Neither the files of a plugin import each other in a cycle, nor its packages, each taken as one module."""
    assert import_cycles(contract_to_packages(import_graph(plugin.parent))) == []


@pytest.mark.parametrize("plugin", LAYERS_OF_PLUGINS)
def test_packages_of_plugins_import_from_layers_above(plugin):
    ranks = {name: rank for rank, names in enumerate(LAYERS_OF_PLUGINS[plugin]) for name in names}
    found = contract_to_packages(
        import_graph(ROOT / "plugins" / plugin.removeprefix("plugrad_") / "src")
    )
    assert found.keys() == ranks.keys()
    wrong = {
        (low, high) for low, above in found.items() for high in above if ranks[high] >= ranks[low]
    }
    assert not wrong


def test_import_cycle_of_packages_is_detected(tmp_path):
    for package, text in (("a", "import p.b.one"), ("b", "")):
        folder = tmp_path / "p" / package
        folder.mkdir(parents=True)
        (folder / "one.py").write_text(text)
    (tmp_path / "p" / "b" / "two.py").write_text("from p.a import one")
    assert import_cycles(import_graph(tmp_path)) == []
    assert import_cycles(contract_to_packages(import_graph(tmp_path))) == [["a", "b"]]


def contract_to_packages(edges):
    """Return the import graph of the packages and top-level modules of a distribution."""

    def package(module):
        return module.partition(".")[2].partition(".")[0]

    found = {package(module): set() for module in edges}
    for module, others in edges.items():
        found[package(module)] |= {package(m) for m in others} - {package(module)}
    return found


FILES_WITH_LAZY_IMPORTS = {
    "plugrad.discovery.hooks": "the command lists plugins without pluggy and NumPy",
    "plugrad.cli": "the command starts without what it may not need",
    "plugrad.cli.child": "each job imports what it does",
    "plugrad.cli.commands.doctor": "as the command itself",
    "plugrad.cli.commands.info": "as the command itself",
    "plugrad.contract.kernel": "only people who read a contract need it in words",
    "plugrad.einops": "only programs with einops need the ops that it calls",
    "plugrad.pictures.graph": "only pictures need a layout",
    "plugrad.profiling": "only pictures need a page",
}
"""The modules that import parts of plugrad inside functions, and why."""


def test_lazy_imports_have_a_reason():
    found = {
        module
        for module, path in core_module_files().items()
        if any(re.search(r"\bplugrad\b", statement) for _, statement in iter_lazy_imports(path))
    }
    assert found == FILES_WITH_LAZY_IMPORTS.keys()


def core_module_files():
    return {m: path for m, path in module_files(SOURCE).items() if m.partition(".")[0] == "plugrad"}


@pytest.mark.parametrize("path", sorted((CORE_FOLDER / "host").glob("*.py")), ids=relative_path)
def test_host_modules_import_contracts_but_not_the_engine(path):
    found = find_imports(path)
    for package in ("plugrad.tape", "plugrad.registry", "plugrad.tensor.tensor"):
        assert not modules_in_package(found, package)


PLUGIN_NAME_PATTERN = re.compile(r"plugrad[_-](?:cpu|native|wasm|webgpu)\b")


def test_core_imports_no_plugin_and_names_none():
    for path in sorted(CORE_FOLDER.rglob("*.py")):
        text = path.read_text("utf-8")
        if "plugrad_" in text:  # few files: to parse them all takes seconds
            assert not [m for m in find_imports(path) if m.startswith("plugrad_")], relative_path(
                path
            )
        if PLUGIN_NAME_PATTERN.search(text):
            assert PLUGIN_NAME_PATTERN.findall(_remove_docstrings(text)) == [], relative_path(path)


def _remove_docstrings(text):
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


@pytest.mark.rows(
    "path",
    [p for plugin in PLUGIN_FOLDERS for p in sorted(plugin.rglob("*.py"))],
    ids=relative_path,
)
def test_plugins_import_only_public_modules_of_other_distributions(path):
    """Imports under TYPE_CHECKING count too. Libraries import only what users may import."""
    own = path.relative_to(ROOT).parts[3]
    found = import_statements(path)
    others = {m for m in found if m.partition(".")[0].startswith("plugrad")} - modules_in_package(
        found, own
    )
    public = {
        "plugrad",
        "plugrad.extend",
        "plugrad.kernels",
        *modules_in_package(others, "plugrad.kernels"),
    }
    if own == "plugrad_onnx":
        public |= {"plugrad.errors"}
    if own in ("plugrad_nn", "plugrad_numerics", "plugrad_distributed"):
        public |= {"plugrad.losses", "plugrad.optimizers", "plugrad.random"}
    assert others <= public | extended_public_modules(own.removeprefix("plugrad_"))


def import_statements(path):
    """Return the modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return found


def extended_public_modules(plugin):
    """Return the public modules of the backends that a kernel pack extends."""
    project = tomllib.loads((ROOT / "plugins" / plugin / "pyproject.toml").read_text("utf-8"))
    packs = project["project"]["entry-points"].get("plugrad.kernels", ())
    return {f"plugrad_{name.partition('.')[0]}.extend" for name in packs}


@pytest.mark.parametrize("plugin", PLUGIN_FOLDERS, ids=lambda path: path.name)
def test_importing_a_plugin_does_not_import_its_library(plugin):
    """The package names only a factory; calling the factory imports the library."""
    found = find_imports(plugin / "__init__.py", at_import_only=True)
    assert not {m.split(".")[0] for m in found} & LAZY_LIBRARIES
    for module in modules_in_package(found, plugin.name) - {plugin.name}:
        path = plugin.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if path.is_file():
            assert not {m.split(".")[0] for m in find_imports(path, at_import_only=True)} & (
                LAZY_LIBRARIES - {"numpy"}
            )


def test_families_are_found():
    assert {"unary", "binary", "convolution"} <= set(FAMILIES)
    assert {"plugrad_cpu", "plugrad_nn", "plugrad_onnx"} <= {path.name for path in PLUGIN_FOLDERS}
