"""The output of the listing commands, as text and as JSON, and their exit statuses."""

import json
import re
import subprocess

import pytest

import plugrad
from plugins.hostile import HOSTILE_PLUGINS, backend_source, install_hostile_plugins, write_backend
from plugins.running import run_command_in_new_process


@pytest.fixture
def run_json_command(run_cli):
    """A function that runs a command with ``--json``, and returns the exit status and the decoded output."""

    def run(*arguments):
        status, printed, _ = run_cli(*arguments, "--json")
        return status, json.loads(printed)

    return run


# --- list and info --------------------------------------------------------------------------------


def test_list_command(run_cli, site, monkeypatch):
    site.install("toy")
    monkeypatch.setenv("PLUGRAD_BACKEND", "toy:1")
    site.install_pack("kernels", "toy.extra", "", target=":kernels")
    status, printed, error = run_cli("list")
    assert (status, error) == (0, "")
    lines = [line.split() for line in printed.splitlines()]
    assert ["Backends"] in lines
    assert ["NAME", "STATUS", "FROM", "SUMMARY"] in lines
    assert ["toy", "active", "acme-toy", "1.2", "a", "toy"] in lines
    assert ["toy.extra", "available", "acme-toy-extra", "1.2"] in lines
    assert site.imported() == []


def test_list_shows_the_status_and_reason_of_each_plugin(run_json_command, run_cli, site):
    install_hostile_plugins(site.folder)
    site.refresh()
    status, records = run_json_command("list")
    assert status == 0
    statuses = {r["name"]: r["status"] for r in records if r["distribution"].startswith("acme-")}
    assert statuses == {name: hostile.status for name, hostile in HOSTILE_PLUGINS.items()}
    printed = " ".join(run_cli("list")[1].split())
    assert "it needs plugin API 2.0 and this plugrad-core offers 1.0" in printed
    assert "priority = 'high' must be an integer" in printed.replace("d- backend", "d-backend")


def test_list_without_an_active_backend_says_why(run_cli, run_json_command, monkeypatch):
    monkeypatch.setenv("PLUGRAD_BACKEND", "webgup")
    status, printed, _ = run_cli("list")
    assert status == 1
    assert run_json_command("list")[0] == 1
    assert "No backend is active: no installed plugin brings a backend called 'webgup'" in printed
    assert not any(record["is_active"] for record in run_json_command("list")[1])


def test_list_without_backends_names_packages_to_install(run_cli, monkeypatch):
    monkeypatch.setattr("plugrad.cli.commands.list.plugins", list)
    assert run_cli("list") == (1, "No backend is installed; run: pip install plugrad\n", "")


def test_info_command(run_cli, run_json_command):
    status, printed, _ = run_cli("info", "cpu")
    assert status == 0
    assert "plugrad-cpu::cpu" in printed
    assert "cpu:0, " in printed
    status, (record,) = run_json_command("info", "plugrad-cpu")
    assert status == 0
    assert record["name"] == "cpu"
    assert record["devices"][0]["name"] == "0"
    assert len(record["kernels"]) > 100
    assert set(record["stored_dtypes"]) >= {"float32", "complex64", "string"}


def test_info_shows_options_and_the_manifest(run_cli, site):
    manifest = (
        'api = "1.0"\nsummary = "a toy"\nurl = "https://example.com"\ncapabilities = ["gpu"]\n'
        'install = "Install the driver."\n'
        '[options.threads]\ntype = "integer"\nsummary = "how many threads"\ndefault = 2\n'
    )
    site.install("toy", manifest=manifest)
    printed = run_cli("info", "toy")[1]
    for text in (
        "https://example.com",
        "gpu",
        "Install the driver.",
        "threads: how many threads (integer, default 2)",
    ):
        assert text in printed


@pytest.mark.parametrize("name", [n for n in HOSTILE_PLUGINS if n != "hang"])
def test_info_of_a_failing_backend_has_the_reason_and_the_traceback(
    run_cli, run_json_command, site, name
):
    hostile = HOSTILE_PLUGINS[name]
    site.install(name, hostile.source, manifest=hostile.manifest)
    is_fine_alone = name == "duplicate"
    status, (record,) = run_json_command("info", name)
    assert status == (0 if is_fine_alone else 1)
    assert bool(record["reason"]) != is_fine_alone
    if name in ("import_error", "exits", "bad_probe"):
        assert f"acme_{name}" in record["details"]
        assert "raise" in run_cli("info", name)[1] or name == "import_error"


def test_info_of_an_unknown_name_suggests_one(run_cli):
    status, _, error = run_cli("info", "cqu")
    assert status == 2
    assert "did you mean 'cpu'?" in error


# --- devices --------------------------------------------------------------------------------------


def test_devices_command(run_cli, run_json_command, site):
    site.install("toy")
    site.install("exits", "raise SystemExit(3)")
    status, printed, _ = run_cli("devices")
    assert status == 0
    lines = [line.split() for line in printed.splitlines()]
    assert ["DEVICE", "KIND", "DESCRIPTION"] in lines
    assert ["toy:1", "hardware", "another", "toy"] in lines
    assert [
        "acme-exits::exits",
        "fails",
        "while",
        "it",
        "is",
        "imported:",
        "SystemExit:",
        "3",
    ] in lines
    status, found = run_json_command("devices", "toy")
    assert status == 0
    assert [d["use"] for d in found["devices"]] == ["toy:0", "toy:1"]
    assert found["without"] == {}


def test_devices_of_a_failing_backend_exit_with_a_finding(run_cli, site):
    site.install("exits", "raise SystemExit(3)")
    assert run_cli("devices", "exits")[0] == 1
    assert run_cli("devices", "exist")[0] == 2


# --- kernels --------------------------------------------------------------------------------------


def test_kernels_command(run_cli, run_json_command, site):
    site.install("toy")
    status, printed, _ = run_cli("kernels", "exp", "--backend", "toy", "--backend", "cpu")
    assert status == 0
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()}
    assert rows["Exp"] == ["unary", "x", "cpu", "(native)", "toy"]
    assert rows["Expm1"] == ["unary", "x", "cpu", "(native)"]
    status, found = run_json_command("kernels", "Exp*", "--backend", "toy")
    assert status == 0
    assert list(found["kernels"]) == ["Exp"]
    assert found["kernels"]["Exp"]["backends"] == {"toy": "own"}


def test_kernels_as_a_matrix(run_cli, site):
    site.install("toy")
    printed = run_cli("kernels", "--matrix", "Exp*", "--backend", "toy", "--backend", "cpu")[1]
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line}
    assert rows["KERNEL"] == ["FAMILY", "cpu", "toy"]
    assert rows["Exp"] == ["unary", "yes", "yes"]
    assert rows["Expm1"] == ["unary", "yes", "–"]


def test_kernels_under_vmap(run_cli, run_json_command):
    printed = run_cli("kernels", "--batching", "--backend", "cpu")[1]
    rows = {line.split()[0]: line.split(maxsplit=2)[2:] for line in printed.splitlines() if line}
    assert rows["KERNEL"] == ["UNDER VMAP"]
    assert (rows["Exp"], rows["Sum"], rows["Fill"]) == (["aligned"], ["rule"], ["shared"])
    assert rows["Where"] == ["error: the shape depends on values"]
    assert rows["SparseReshape"][0].startswith("loop, because")
    assert rows["ApplyAdam"][0].startswith("rule; loop if the coefficients")
    assert "of which 2 run once for each example" in " ".join(printed.split())
    assert run_json_command("kernels", "Exp")[1]["kernels"]["Exp"]["batching"] == "aligned"


def test_kernels_of_a_backend_that_cannot_start_are_its_manifests(run_cli, run_json_command, site):
    manifest = 'api = "1.0"\nkernels = ["Exp", "AcmeMagic"]\n'
    site.install("exits", "raise SystemExit(3)", manifest=manifest)
    _, found = run_json_command("kernels", "--backend", "exits")
    assert {k: v["backends"] for k, v in found["kernels"].items()} == {
        "Exp": {"exits": "declared"},
        "AcmeMagic": {"exits": "declared"},
    }
    assert "SystemExit: 3" in found["without"]["exits"]
    assert "SystemExit: 3" in run_cli("kernels", "--backend", "exits")[1]


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("qqq", ""),
        ("Conv2DD", " (did you mean 'Conv2D'?)"),
        ("poling", " (did you mean 'pooling'?)"),
    ],
)
def test_kernels_command_with_an_unknown_pattern(run_cli, pattern, hint):
    printed = f"No kernel matches {pattern!r}{hint}.\n"
    assert run_cli("kernels", pattern, "--backend", "cpu") == (0, printed, "")


# --- config ---------------------------------------------------------------------------------------


def test_config_command(run_cli, run_json_command, site):
    (site.folder / "plugrad.toml").write_text('backend = "wasm"\nmemory_limit = "1GB"\n')
    plugrad.config.reset()
    status, printed, _ = run_cli("config")
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()}
    assert status == 0
    assert rows["backend"] == ["cpu", "environment", "variable", "PLUGRAD_BACKEND"]
    assert rows["memory_limit"][0] == "1000000000"
    _, found = run_json_command("config")
    assert found["files"] == [str(site.folder / "plugrad.toml")]
    (backend,) = (s for s in found["settings"] if s["key"] == "backend")
    assert backend["overruled"] == [["wasm", str(site.folder / "plugrad.toml")]]


def test_config_explains_every_setting(run_cli, site):
    (site.folder / "plugrad.toml").write_text('backend = "wasm"\n')
    plugrad.config.reset()
    printed = " ".join(run_cli("config", "--explain")[1].split())
    for key in plugrad.config.keys():  # noqa: SIM118 - no dict
        assert f"{key.name} means {key.meaning}" in printed
        assert f"takes {key.accepts}" in printed
        assert f"variable {key.variable}" in printed
    assert "is cpu, decided by environment variable PLUGRAD_BACKEND" in printed
    assert "overrules wasm in" in printed


def test_config_that_is_malformed_is_misuse(run_cli, site):
    (site.folder / "plugrad.toml").write_text("memory_limit = 'lots'\n")
    plugrad.config.reset()
    status, _, error = run_cli("config")
    assert status == 2
    assert "memory_limit='lots' is malformed" in error


def test_config_shows_settings_suggested_by_plugins(site):
    site.install_pack(
        "plugins",
        "suggests",
        """
        import plugrad

        @plugrad.hookimpl
        def plugrad_configure(config):
            return {"memory_limit": "5GB"}
        """,
    )
    done = run_command_in_new_process("config", folder=site.folder)
    assert done.stderr == ""
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("memory_limit"))
    assert line.split()[1:] == ["5000000000", "plugin", "acme-suggests::suggests"]


# --- conformance ----------------------------------------------------------------------------------


def test_conformance_runs_the_kit(site):
    done = run_command_in_new_process("conformance", "cpu", "--level", "lifecycle", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backends"]["cpu"]["total"]["failed"] == 0
    assert "plugrad conformance" in done.stderr


def test_conformance_of_a_wrong_backend_exits_with_a_finding(site):
    write_backend(site.folder, "wrong", backend_source("wrong", implementation="np.expm1"))
    done = run_command_in_new_process("conformance", "wrong", "-k", "Exp", folder=site.folder)
    assert done.returncode == 1
    assert "failed" in done.stdout
    progress, _, summary = done.stdout.partition("plugrad conformance")
    assert "F" in progress.split()[0]
    assert "s" not in progress.split()[0]
    assert re.search(r"  skipped: wrong does not store float64 \(\d+\)\n", summary)


def test_conformance_that_selects_no_test_is_an_error(run_cli, monkeypatch):
    ended = subprocess.CompletedProcess[bytes]([], int(pytest.ExitCode.NO_TESTS_COLLECTED))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    status, _, error = run_cli("conformance", "cpu", "-k", "nothing")
    assert (status, error) == (2, "plugrad: no test up to level batched matches -k 'nothing'\n")


def test_conformance_of_a_crashing_backend_exits_with_a_finding(site):
    write_backend(site.folder, "segfault", HOSTILE_PLUGINS["segfault"].source)
    done = run_command_in_new_process(
        "conformance", "segfault", "--level", "lifecycle", folder=site.folder
    )
    assert done.returncode == 1
    assert "backend 'segfault' crashes with SIGSEGV during the tests" in done.stderr


def test_conformance_without_pytest_says_what_to_install(run_cli, monkeypatch):
    monkeypatch.setattr("plugrad.cli.commands.conformance.find_spec", lambda name: None)
    status, _, error = run_cli("conformance", "cpu")
    assert status == 2
    assert 'pip install "plugrad-core[testing]"' in error


def test_conformance_of_an_unknown_backend_is_misuse(run_cli):
    status, _, error = run_cli("conformance", "webgup")
    assert status == 2
    assert "did you mean 'webgpu'?" in error
