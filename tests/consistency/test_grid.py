"""The tree is a grid: rows are families, columns are layers. No cell is missing, and none outgrows its file."""

import ast
import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import plugrad
from plugrad import kernels
from plugrad.extend import KERNELS
from plugrad.registry.batching import find_batching

ROOT = Path(__file__).parents[2]
CORE_FOLDER = ROOT / "core" / "src" / "plugrad"
PLUGIN_FOLDERS = sorted(path for path in ROOT.glob("plugins/*/src/plugrad_*") if path.is_dir())
FAMILIES = sorted(
    path.stem for path in (CORE_FOLDER / "kernels").glob("*.py") if path.stem != "__init__"
)
PLUGIN_COLUMNS = [plugin / "kernels" for plugin in PLUGIN_FOLDERS]
CPU_KERNELS_FOLDER = (
    ROOT / "plugins" / "cpu" / "src" / "plugrad_cpu" / "kernels"
)  # complete by definition
FOLDERS_WITH_ALL_FAMILIES = [CORE_FOLDER / "ops", CORE_FOLDER / "gradients", CPU_KERNELS_FOLDER]
FAMILY_FOLDERS = [
    CORE_FOLDER / "ops",
    CORE_FOLDER / "gradients",
    CORE_FOLDER / "batching",
    *PLUGIN_COLUMNS,
]
SOURCE_FILES = sorted(
    path
    for part in ("core/src", "plugins/*/src", "plugins/csrc", "tests", "examples", "benchmarks")
    for folder in ROOT.glob(part)
    for path in folder.rglob("*.py")
    if "__pycache__" not in path.parts
)
PUBLIC_PAGE = CORE_FOLDER / "__init__.py"  # a list of names, as long as there are names
FAMILIES_WITHOUT_KERNELS = {
    # made of other families' ops
    "arrow",
    "distributions",
    "dlpack",
    "einsum",
    "evaluation",
    "fft",
    "histograms",
    "keys",
    "losses",
    "missing",
    "norms",
    "quantiles",
    "sampling",
    "sets",
    "statistics",
    "streams",
    "subscript",
    "training",
    "transfer",
    # what all ops share
    "arguments",
    "array_functions",
    "assignment",
    "attributes",
    "axes",
    "chained",
    "dtypes",
    "groups",
    "methods",
    "numpy_functions",
    "numpy_shapes",
    "numpy_table",
    "operators",
    "ufuncs",
    "windows",
}
MAX_LINES = 600


def relative_path(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("column", FOLDERS_WITH_ALL_FAMILIES, ids=relative_path)
@pytest.mark.parametrize("family", FAMILIES)
def test_family_has_a_file_in_every_layer(family, column):
    assert (column / f"{family}.py").is_file()


@pytest.mark.parametrize("column", FAMILY_FOLDERS, ids=relative_path)
def test_layers_have_no_other_families(column):
    extra = {path.stem for path in column.glob("*.py")} - set(FAMILIES) - {"__init__"}
    assert extra <= (FAMILIES_WITHOUT_KERNELS if column.name == "ops" else set())


def test_kernel_families_are_imported_on_first_use():
    assert dir(kernels) == FAMILIES
    assert all(getattr(kernels, family).__doc__ for family in FAMILIES)


def test_type_checkers_know_every_family():
    tree = ast.parse(Path(kernels.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    (imported,) = block.body
    assert [(alias.name, alias.asname) for alias in imported.names] == [(n, n) for n in FAMILIES]


def test_host_modules_belong_to_families():
    modules = {path.stem for path in (CORE_FOLDER / "host").glob("*.py")}
    assert modules - {"__init__", "fingerprint"} <= set(FAMILIES)


def test_files_are_not_too_long():
    lines = {
        relative_path(p): len(p.read_text("utf-8").splitlines())
        for p in SOURCE_FILES
        if p != PUBLIC_PAGE
    }
    too_long = {file: count for file, count in lines.items() if count > MAX_LINES}
    assert too_long == {}, "split the family, in every layer at once"


def core_contracts():
    return [k for k in KERNELS.values() if k.rule.__module__.startswith("plugrad.kernels.")]


@pytest.mark.parametrize("contract", core_contracts(), ids=lambda k: k.name)
def test_contract_is_in_the_file_of_its_family_and_has_a_docstring(contract):
    assert contract.rule.__module__ == f"plugrad.kernels.{contract.family}"
    assert contract.family in FAMILIES
    if contract.rule.__name__ != "rule":  # the factories of families describe theirs in one line
        assert contract.rule.__doc__


@pytest.mark.parametrize("contract", core_contracts(), ids=lambda k: k.name)
def test_contract_has_a_gradient_or_is_declared_not_differentiable(contract):
    assert plugrad.get_gradient(contract.name) is not None, (
        f"declare gradient({contract.name}, …) or not_differentiable in gradients/{contract.family}.py"
    )


def test_gradients_belong_to_contracts():
    declared = {contract.name for contract in core_contracts()}
    assert {n for n in plugrad.get_gradients() if n in KERNELS} >= declared


def needs_batching_rule(contract):
    """Whether vmap needs a batching rule for a kernel; elementwise kernels need none."""
    return bool(contract.inputs) and not contract.is_elementwise and not contract.dynamic_shape


@pytest.mark.parametrize("contract", core_contracts(), ids=lambda k: k.name)
def test_contract_has_a_batching_rule_or_needs_none(contract):
    assert (find_batching(contract.name) is not None) == needs_batching_rule(contract), (
        f"declare register_batching({contract.name}, …) or batched_by_loop in batching/{contract.family}.py"
    )


def test_families_that_need_batching_rules_have_a_file_of_them():
    needing = {contract.family for contract in core_contracts() if needs_batching_rule(contract)}
    files = {path.stem for path in (CORE_FOLDER / "batching").glob("*.py")} - {"__init__"}
    assert files == needing


@pytest.mark.parametrize("contract", core_contracts(), ids=lambda k: k.name)
def test_reference_backend_implements_the_contract(contract):
    with plugrad.use("cpu"):
        assert plugrad.get_kernel(contract.name, "cpu") is not None


# --- the public page ------------------------------------------------------------------------------


def public_names():
    """Return the (original, exported) names that plugrad/__init__.py re-exports as ``x as x``."""
    tree = ast.parse((CORE_FOLDER / "__init__.py").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    aliases = [a for node in (*imports, *type_checking_imports()[1]) for a in node.names]
    return [(a.name, a.asname) for a in aliases]


def type_checking_imports():
    """Return the imports that only type checkers see: of modules, and of functions."""
    tree = ast.parse((CORE_FOLDER / "__init__.py").read_text("utf-8"))
    condition, _ = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(condition.test) == "typing.TYPE_CHECKING"
    namespaces, *functions = condition.body
    return namespaces, functions


PUBLIC_NAMES = [exported or original for original, exported in public_names()]
PUBLIC_CALLABLES = [
    n
    for n in PUBLIC_NAMES
    if inspect.isfunction(getattr(plugrad, n)) or inspect.isclass(getattr(plugrad, n))
]
CALLABLES_WITHOUT_EXAMPLE = {
    "GradientConfig": "register_gradient shows it",
    "KernelConfig": "register_kernel shows it",
    "Memory": "a report: memory() shows it",
    "unregister_gradient": "register_gradient shows it",
    "unregister_kernel": "register_kernel shows it",
    "get_gradient": "a look-up by name",
    "get_kernel": "a look-up by name",
    "get_kernels_for_backend": "a look-up by name",
    "copy_registered_kernels": "needs a second backend",
    "override_kernel": "docs/examples shows it",
    "register_backend": "needs a backend: docs/guide/extending.md shows one",
    "set_memory_limit": "would limit the examples after it",
    "keep": "tidy shows its block",
    "load": "save shows it",
    "dispose": "tidy shows what it leaves",
}


def test_public_names_are_imported_explicitly():
    for original, exported in public_names():
        assert exported is not None, f"spell it {original} as {original}"
    tree = ast.parse((CORE_FOLDER / "__init__.py").read_text("utf-8"))
    *_, condition = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(condition.test) == "not typing.TYPE_CHECKING"
    functions = [n.name for n in (*condition.body, *tree.body) if isinstance(n, ast.FunctionDef)]
    kinds = {type(node) for node in tree.body} - {ast.FunctionDef}
    assert functions == ["__getattr__", "__dir__"]
    assert kinds <= {ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.If}
    assert len(PUBLIC_NAMES) == len(set(PUBLIC_NAMES))


def test_type_checkers_see_lazily_imported_names():
    namespaces, functions = type_checking_imports()
    later = {alias.name: node.module for node in functions for alias in node.names}
    assert later == {
        name: f"plugrad.{module}" for name, module in plugrad._MODULE_OF_EXPORT.items()
    }
    listed = {alias.name for alias in namespaces.names}
    assert listed == {n for n in dir(plugrad) if inspect.ismodule(getattr(plugrad, n))} - {"errors"}
    loaded = "import plugrad, sys; print(*(m for m in sys.modules if m.startswith('plugrad.')))"
    output = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    unwanted = {f"plugrad.{name}" for name in listed - {"kernels"}} | set(later.values())
    unwanted |= {f"plugrad.{column}.{f}" for column in ("gradients", "batching") for f in FAMILIES}
    assert not unwanted & set(output.stdout.split())


def test_every_contract_is_known_from_the_start():
    known = (
        "import plugrad; from plugrad.contract.kernel import all_contracts; print(*all_contracts())"
    )
    output = subprocess.run(
        [sys.executable, "-c", known], capture_output=True, text=True, check=True
    )
    assert {contract.name for contract in core_contracts()} <= set(output.stdout.split())


def test_unknown_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match=r"plugrad does not have 'softmx'.*'softmax'"):
        _ = plugrad.softmx


NAMESPACE_MODULES = (
    "fft",
    "fused",
    "image",
    "linalg",
    "losses",
    "random",
    "signal",
    "sparse",
    "string",
    "tfjs",
)
MODULE_ATTRIBUTES = ("__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__")
MODULE_ATTRIBUTES += (
    "__package__",
    "__path__",
    "__spec__",
    "__dir__",
    "__getattr__",
    "__version__",
)


def listed_names(module):
    return set(dir(module)) - set(MODULE_ATTRIBUTES)


def test_dir_of_plugrad_lists_its_exports_and_no_other_module():
    modules = ("errors", "extend", "kernels", "optimizers", *NAMESPACE_MODULES)
    assert listed_names(plugrad) == {*PUBLIC_NAMES, "newaxis", *modules}
    for name in listed_names(plugrad):
        assert not inspect.ismodule(getattr(plugrad, name)) or name in modules


@pytest.mark.parametrize("space", NAMESPACE_MODULES)
def test_dir_of_a_namespace_lists_only_its_own_names(space):
    tree = ast.parse((CORE_FOLDER / f"{space}.py").read_text("utf-8"))
    aliases = [a for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names]
    assert listed_names(getattr(plugrad, space)) == {alias.asname for alias in aliases}


@pytest.mark.parametrize("public", PUBLIC_CALLABLES)
def test_public_name_has_a_docstring_with_an_example(public):
    documented = inspect.getdoc(getattr(plugrad, public))
    assert documented
    first = documented.splitlines()[0]
    assert first.endswith((".", ":", "``")), f"the first line is a sentence: {first!r}"
    has_example = bool(doctest.DocTestParser().get_examples(documented))
    assert has_example != (public in CALLABLES_WITHOUT_EXAMPLE), (
        f"{public}: give an example, or a reason in CALLABLES_WITHOUT_EXAMPLE"
    )


def test_callables_without_example_are_public():
    assert set(CALLABLES_WITHOUT_EXAMPLE) <= set(PUBLIC_CALLABLES)


@pytest.mark.parametrize("error", [e for e in vars(plugrad.errors).values() if inspect.isclass(e)])
def test_error_has_its_manual_page(error):
    documented = inspect.getdoc(error)
    assert documented
    if error is not plugrad.errors.PlugradError:
        assert issubclass(error, plugrad.errors.PlugradError)
        assert "Remedy:" in documented
