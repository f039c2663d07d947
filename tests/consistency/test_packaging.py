"""The distributions agree with each other and with what their pages promise."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN_FOLDERS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
DISTRIBUTION_FOLDERS = [ROOT, ROOT / "core", *PLUGIN_FOLDERS]
BACKENDS = [
    p for p in PLUGIN_FOLDERS if p.name not in ("distributed", "native", "nn", "numerics", "onnx")
]
PACKAGE_FOLDERS = [
    path for member in DISTRIBUTION_FOLDERS for path in member.glob("src/plugrad*") if path.is_dir()
]


def project_table(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def distribution_names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}


META_DISTRIBUTION = project_table(ROOT)
for_each_distribution = pytest.mark.parametrize(
    "member", DISTRIBUTION_FOLDERS, ids=lambda path: project_table(path)["name"]
)


def test_distributions_have_the_expected_names():
    assert {project_table(member)["name"] for member in DISTRIBUTION_FOLDERS} == {
        "plugrad",
        "plugrad-core",
        "plugrad-cpu",
        "plugrad-distributed",
        "plugrad-native",
        "plugrad-nn",
        "plugrad-numerics",
        "plugrad-onnx",
        "plugrad-wasm",
        "plugrad-webgpu",
    }


@for_each_distribution
def test_every_distribution_has_the_version_of_the_meta_distribution(member):
    assert project_table(member)["version"] == META_DISTRIBUTION["version"]


@for_each_distribution
def test_licence_is_apache_and_its_text_is_packaged(member):
    assert project_table(member)["license"] == "Apache-2.0"
    assert (member / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@for_each_distribution
def test_python_is_3_11_or_later(member):
    assert project_table(member)["requires-python"] == ">=3.11"


@pytest.mark.parametrize("package", PACKAGE_FOLDERS, ids=lambda path: path.name)
def test_package_is_typed(package):
    assert (package / "py.typed").is_file()


def test_every_member_has_a_package():
    assert len(PACKAGE_FOLDERS) == len(DISTRIBUTION_FOLDERS) - 1  # all but the meta-distribution


def test_plugin_names_match_their_folder_and_entry_point():
    for plugin in PLUGIN_FOLDERS:
        assert project_table(plugin)["name"] == f"plugrad-{plugin.name}"
        package = f"plugrad_{plugin.name}"
        brought = {
            "native": {"plugrad.kernels": {"cpu.native": f"{package}:register"}},
            "nn": {"plugrad.ops": {"nn": package}},
            "numerics": {"plugrad.ops": {"numerics": package}},
            "onnx": {"plugrad.ops": {"onnx": package}},
            "distributed": {
                "plugrad.ops": {"distributed": package},
                "plugrad.plugins": {"distributed": f"{package}.hooks"},
                "plugrad.collectives": {
                    "gloo": f"{package}.gloo:Gloo",
                    "mpi": f"{package}.mpi:MPI",
                    "single": f"{package}.single:Single",
                },
            },
        }
        backend = {"plugrad.backends": {plugin.name: f"{package}:backend"}}
        assert project_table(plugin)["entry-points"] == brought.get(plugin.name, backend)


def test_extras_are_the_plugins_that_are_not_always_installed_and_files():
    version = META_DISTRIBUTION["version"]
    extras = dict(META_DISTRIBUTION["optional-dependencies"])
    always = ["core", "cpu", "native"]
    unnamed = ["distributed"]  # its extras are named after what connects the processes
    optional = sorted(p.name for p in PLUGIN_FOLDERS if p.name not in [*always, *unnamed])

    assert [d.partition(" ;")[0] for d in META_DISTRIBUTION["dependencies"]] == [
        f"plugrad-{name}=={version}" for name in always
    ]
    assert extras.pop("all") == [
        f"plugrad[{','.join(sorted(['bfloat16', 'image', 'save', *optional]))}]"
    ]
    for extra, library in (("bfloat16", "ml-dtypes"), ("image", "pillow"), ("save", "safetensors")):
        assert extras.pop(extra) == [f"plugrad-core[{extra}]=={version}"]
        assert distribution_names(project_table(ROOT / "core")["optional-dependencies"][extra]) == {
            library
        }
    for extra in project_table(ROOT / "plugins" / "distributed")["optional-dependencies"]:
        assert extras.pop(extra) == [f"plugrad-distributed[{extra}]=={version}"]
    assert extras == {name: [f"plugrad-{name}=={version}"] for name in optional}


@for_each_distribution
def test_distributions_require_releases_that_fit_together(member):
    """Distributions require the same minor version of each other; the meta-distribution requires one exact release."""
    metadata = project_table(member)
    required = [
        *metadata.get("dependencies", []),
        *(r for extra in metadata.get("optional-dependencies", {}).values() for r in extra),
    ]
    sign = "==" if member == ROOT else "~="
    for requirement in (r.partition(" ;")[0] for r in required if r.startswith("plugrad-")):
        assert requirement.endswith(f"{sign}{META_DISTRIBUTION['version']}"), requirement


def test_core_needs_three_distributions():
    assert distribution_names(project_table(ROOT / "core")["dependencies"]) == {
        "importlib-metadata",
        "numpy",
        "pluggy",
    }


def test_meta_distribution_holds_no_code():
    assert not (ROOT / "src").exists()
    assert not (ROOT / "plugrad").exists()


def test_no_lock_file_is_tracked():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: nothing is tracked")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    locks = re.compile(r"(^|/)([^/]*\.lock|pylock[^/]*\.toml|package-lock\.json)$")
    assert [path for path in listed if locks.search(path)] == []


def test_readme_on_the_package_index_has_no_relative_links():
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    text = (ROOT / "README.md").read_text("utf-8")
    code = re.findall(r"^```.*?^```$", text, re.M | re.S)
    relative = r"\]\((?!https?:|#)"
    assert re.search(relative, text)
    hook = whole["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert not re.search(relative, text)
    assert re.findall(r"^```.*?^```$", text, re.M | re.S) == code
