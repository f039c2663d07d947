"""``plugrad doctor``: what it finds in one plugin, in packs and hooks, and in the environment."""

import json
import os
import sys
import time
import traceback

import pytest

import plugrad
from plugins.hostile import HOSTILE_PLUGINS, backend_source, write_backend, write_distribution
from plugins.running import run_command_in_new_process
from plugrad.cli import main
from plugrad.cli.findings import relevant_traceback_lines

OTHER_DISTRIBUTIONS = {p.distribution for p in plugrad.plugins()} - {"plugrad-cpu"}
ENVIRONMENT_WITHOUT_OTHER_PLUGINS = {
    "PLUGRAD_PLUGINS_DISABLE": ",".join(sorted(OTHER_DISTRIBUTIONS))
}
"""For tests of the whole doctor that are not about our plugins, each of which takes a process.

It tries all of them in `test_doctor_hostile`.
"""


def run_doctor(folder, *arguments, **variables):
    """Run the doctor in a new process; return the exit status and the output."""
    done = run_command_in_new_process("doctor", *arguments, folder=folder, **variables)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def examine_plugins(site, capsys):
    """A function that runs the doctor in this process on some plugins, and returns the exit status and the report."""

    def run(*names, timeout="60"):
        status = main(["doctor", *names, "--json", "--timeout", timeout])
        return status, json.loads(capsys.readouterr().out)

    return run


# --- one at a time ---------------------------------------------------------------------------------


def test_healthy_backend_is_no_finding(examine_plugins):
    status, report = examine_plugins("cpu")
    assert status == 0
    assert report["findings"] == []
    (record,) = report["plugins"]
    assert record["health"] == "ok"
    assert record["line"].endswith(" checks agree")


def test_backend_that_computes_wrongly(examine_plugins, site):
    source = backend_source("wrong", implementation="np.expm1")
    site.install("wrong", source)
    status, report = examine_plugins("wrong")
    assert status == 1
    (finding,) = report["findings"]
    assert "computes wrong results: exp differs: by up to 1" in finding["text"]
    assert "do not rely on its results" in finding["remedy"]


def test_backend_whose_kernel_raises(examine_plugins, site):
    site.install("raises", backend_source("raises", implementation="lambda x: 1 / 0"))
    status, report = examine_plugins("raises")
    assert status == 1
    text = report["findings"][0]["text"]
    assert "exp fails: KernelFailed: Exp on backend 'raises' (acme-raises)" in text
    assert "ZeroDivisionError: division by zero" in text


def test_unavailable_backend_is_a_note_unless_requested(examine_plugins, site, monkeypatch):
    for name, value in ENVIRONMENT_WITHOUT_OTHER_PLUGINS.items():
        monkeypatch.setenv(name, value)
    refusal = 'return Probe(False, "no such hardware here")'
    site.install("polite", backend_source("polite", probe=refusal))
    status, report = examine_plugins("polite")
    assert status == 1
    (finding,) = report["findings"]
    assert "cannot start here: no such hardware here" in finding["text"]
    _, everything = examine_plugins()
    (finding,) = [f for f in everything["findings"] if "polite" in f["subject"]]
    assert finding["level"] == "note"


def test_backend_that_is_not_installed(examine_plugins, site):
    (site.folder / "my_backend.py").write_text(backend_source("mine"))
    status, report = examine_plugins("module://my_backend:backend")
    assert (status, report["findings"]) == (0, [])
    assert report["plugins"][0]["line"] == "2 kernels, 4 checks agree"
    (site.folder / "broken_backend.py").write_text("1 / 0")
    status, report = examine_plugins("module://broken_backend:backend")
    assert status == 1
    assert report["findings"][0]["remedy"].startswith("correct broken_backend:backend")


def test_software_devices_are_a_note(examine_plugins, site):
    source = (
        backend_source("soft")
        .replace('"a toy")', '"a toy", True)')
        .replace('"another toy")', '"b", True)')
    )
    site.install("soft", source)
    status, report = examine_plugins("soft")
    assert status == 0
    assert "has only software devices" in report["findings"][0]["text"]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os; os._exit(0)", "ends the process with exit code 0 while it is imported"),
        ("import os; os._exit(7)", "ends the process with exit code 7 while it is imported"),
        ("raise KeyboardInterrupt", "fails while it is imported: KeyboardInterrupt"),
        (
            "import os; os.close(1); os.close(2); raise OSError('x')",
            "fails while it is imported: OSError: x",
        ),
        (
            "print('noise'); import sys; sys.stdin.read(); 1 / 0",
            "fails while it is imported: ZeroDivisionError",
        ),
    ],
)
def test_doctor_describes_failures_of_a_backend(examine_plugins, site, code, text):
    site.install("odd", code)
    status, report = examine_plugins("odd")
    assert status == 1
    assert text in report["findings"][0]["text"]


def test_crash_while_the_interpreter_ends(examine_plugins, site):
    late = "\nimport atexit, os, signal\natexit.register(os.kill, os.getpid(), signal.SIGSEGV)\n"
    site.install("late", backend_source("late") + late)
    status, report = examine_plugins("late")
    assert status == 1
    assert "crashes with SIGSEGV while the interpreter ends" in report["findings"][0]["text"]


def test_processes_started_by_a_plugin_are_killed_with_it(examine_plugins, site):
    marker = site.folder / "alive"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(4); open({str(marker)!r}, \"w\")'])\n"
        "time.sleep(600)\n"
    )
    site.install("spawns", code)
    assert examine_plugins("spawns", timeout="2")[0] == 1
    time.sleep(3)
    assert not marker.exists()


def test_plugin_that_is_switched_off_is_not_run(examine_plugins, site, monkeypatch):
    site.install("segfault", HOSTILE_PLUGINS["segfault"].source)
    monkeypatch.setenv("PLUGRAD_PLUGINS_DISABLE", "segfault")
    status, report = examine_plugins("segfault")
    assert status == 0
    assert "is disabled: plugins.disable in environment variable" in report["findings"][0]["text"]


# --- packs and hooks --------------------------------------------------------------------------------


def test_kernel_pack_is_tried_with_its_backend(examine_plugins, site):
    site.install("toy")
    site.install_pack(
        "kernels", "toy.bad", "def kernels():\n    raise OSError('no kernels')", target=":kernels"
    )
    status, report = examine_plugins("toy.bad")
    assert status == 1
    (finding,) = report["findings"]
    assert finding["subject"] == "kernel pack 'toy.bad' (acme-toy-bad 1.2)"
    assert "is left out: OSError: no kernels" in finding["text"]
    assert {p["name"]: p["health"] for p in report["plugins"]} == {"toy.bad": "FAILS", "toy": "ok"}


def test_kernel_pack_that_computes_wrongly_is_named_instead_of_its_backend(examine_plugins, site):
    source = """
        from plugrad.extend import KernelConfig
        def register():
            return [KernelConfig("{}", "toy", lambda {}: {})]
    """
    for name, kernel, inputs, result in (
        ("good", "ThirdPower", "x", "x ** 3"),
        ("bad", "Add", "a, b", "a + b + 100"),
        ("fails", "Multiply", "a, b", "1 / 0"),
    ):
        site.install_pack(
            "kernels", f"toy.{name}", source.format(kernel, inputs, result), target=":register"
        )
    site.install("toy")
    status, report = examine_plugins("toy")
    assert status == 1
    problems = {f["subject"]: f for f in report["findings"] if "computes wrong" in f["text"]}
    assert problems.keys() == {
        "kernel pack 'toy.bad' (acme-toy-bad 1.2)",
        "kernel pack 'toy.fails' (acme-toy-fails 1.2)",
    }
    bad, fails = problems.values()
    assert "computes wrong results on backend 'toy'" in bad["text"]
    assert "add differs: by up to 100" in bad["text"]
    assert "multiply int32 fails: " in fails["text"]
    assert "pip uninstall acme-toy-bad" in bad["remedy"]


def test_op_pack_is_imported(examine_plugins, site):
    site.install_pack("ops", "good", "x = 1")
    site.install_pack("ops", "bad", "1 / 0")
    assert examine_plugins("good")[0] == 0
    status, report = examine_plugins("bad")
    assert status == 1
    assert "fails while it is imported: ZeroDivisionError" in report["findings"][0]["text"]
    assert "acme_bad" in report["findings"][0]["details"]


DOCTOR_SECTION_SOURCE = """
    import plugrad

    @plugrad.hookimpl
    def plugrad_doctor_section():
        {body}
"""


def test_hook_adds_a_section(site, capsys):
    site.install_pack(
        "plugins",
        "tells",
        DOCTOR_SECTION_SOURCE.format(body='return "Acme cluster", "3 of 4 nodes\\nnode 4 is away"'),
    )
    assert main(["doctor", "tells"]) == 0
    assert "\nAcme cluster\n  3 of 4 nodes\n  node 4 is away\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("1 / 0", "hook plugrad_doctor_section failed: ZeroDivisionError"),
        (
            "import os; os._exit(5)",
            "ends the process with exit code 5 while it is asked for its section",
        ),
    ],
)
def test_hook_that_fails_is_a_finding(examine_plugins, site, body, text):
    site.install_pack("plugins", "fails", DOCTOR_SECTION_SOURCE.format(body=body))
    status, report = examine_plugins("fails")
    assert status == 1
    assert text in report["findings"][0]["text"]


def test_hooks_of_one_plugin_are_not_blamed_on_another(examine_plugins, site):
    site.install_pack("plugins", "hangs", "import time; time.sleep(600)")
    site.install("toy")
    status, report = examine_plugins("toy")
    assert (status, report["findings"]) == (0, [])


# --- the environment --------------------------------------------------------------------------------


def test_environment_lists_settings_and_the_active_backend(site, monkeypatch):
    (site.folder / "plugrad.toml").write_text("memory_limit = '1GB'\n")
    _, printed = run_doctor(site.folder, PLUGRAD_BACKEND="cpu", **ENVIRONMENT_WITHOUT_OTHER_PLUGINS)
    words = " ".join(printed.split())
    assert f"Settings {site.folder / 'plugrad.toml'} PLUGRAD_BACKEND=cpu" in words
    assert "chosen by environment variable PLUGRAD_BACKEND" in words
    assert sys.executable in printed


@pytest.mark.parametrize(
    ("setting", "text", "remedy"),
    [
        (
            {"PLUGRAD_BACKEND": "webgup"},
            "no installed plugin brings a backend called 'webgup' (did you mean 'webgpu'?)",
            "correct the backend in environment variable PLUGRAD_BACKEND, or remove it",
        ),
        ({}, "cpu is blocked: plugins.disable in environment variable PLUGRAD_PLUGINS_DISABLE", ""),
    ],
)
def test_no_active_backend_is_a_problem(site, setting, text, remedy):
    disabled = ",".join(plugin.name for plugin in plugrad.plugins())
    status, printed = run_doctor(site.folder, "--json", PLUGRAD_PLUGINS_DISABLE=disabled, **setting)
    (finding,) = [f for f in json.loads(printed)["findings"] if f["level"] == "problem"]
    assert (status, finding["subject"], finding["remedy"]) == (1, "plugrad", remedy)
    assert finding["text"].startswith("has no active backend: ")
    assert text in finding["text"]


def test_active_backend_that_is_passed_over_has_a_reason(site):
    write_backend(
        site.folder,
        "soft",
        backend_source("soft", probe='return Probe(True, devices=(DeviceInfo("0", "s", True),))'),
        manifest='api = "1.0"\npriority = 5000\n',
    )
    _, printed = run_doctor(
        site.folder, PLUGRAD_PLUGINS_ALLOW_AUTO="acme-*", **ENVIRONMENT_WITHOUT_OTHER_PLUGINS
    )
    assert "not soft: it has only software devices" in printed


def test_stale_copy_of_a_distribution(site):
    write_backend(site.folder, "toy")
    entry_points = {"plugrad.backends": {"toy": "acme_toy:backend"}}
    write_distribution(
        site.folder / "old", "acme-toy", entry_points=entry_points, files={}, version="0.9"
    )
    path = os.pathsep.join([str(site.folder), str(site.folder / "old")])
    status, printed = run_doctor(
        path.split(os.pathsep)[0], "--json", PYTHONPATH=path, **ENVIRONMENT_WITHOUT_OTHER_PLUGINS
    )
    assert status == 1
    (finding,) = [f for f in json.loads(printed)["findings"] if f["subject"] == "acme-toy"]
    assert "is installed twice; a copy of version 0.9" in finding["text"]
    assert "pip uninstall acme-toy" in finding["remedy"]


def test_settings_that_cannot_be_read(site):
    (site.folder / "plugrad.toml").write_text("[plugins\n")
    status, printed = run_doctor(site.folder)
    assert status == 1
    assert "settings cannot be read" in printed
    assert "plugrad.toml" in printed


def test_plugrad_that_does_not_start_is_one_finding(examine_plugins, site):
    (site.folder / "numpy.py").write_text("raise ImportError('numpy is broken')")
    status, report = examine_plugins()
    assert status == 1
    (finding,) = [f for f in report["findings"] if f["level"] == "problem"]
    assert finding["subject"] == "plugrad"
    assert "numpy is broken" in finding["details"]
    assert "pip install --force-reinstall plugrad-core numpy" in finding["remedy"]


def test_unknown_name_is_misuse(site, capsys):
    assert main(["doctor", "cqu"]) == 2
    assert "did you mean 'cpu'?" in capsys.readouterr().err


# --- tracebacks -------------------------------------------------------------------------------------


def test_relevant_traceback_lines_are_those_of_the_plugin():
    try:
        plugrad.asarray(object())
    except plugrad.errors.PlugradError as error:
        text = "".join(traceback.format_exception(error))
    kept = relevant_traceback_lines(text)
    assert "test_doctor.py" in kept.splitlines()[0]
    assert os.path.join("plugrad", "ops") not in kept
    assert kept.splitlines()[-1].startswith("plugrad.errors.")
    assert relevant_traceback_lines("one line") == "one line"
    assert relevant_traceback_lines("") == ""
