"""``plugrad doctor`` with ten misbehaving plugins: it reports all of them, and other plugins still work."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from plugins.hostile import HOSTILE_PLUGINS, install_hostile_plugins
from plugins.running import (
    INTERRUPTIBLE_COMMAND_PROGRAM,
    clean_environment,
    run_command_in_new_process,
)

DOCTOR_TIMEOUT = "15"
"""Seconds for each plugin: one of the ten takes them all."""


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    install_hostile_plugins(folder)
    return folder


@pytest.fixture(scope="module")
def hostile_report(hostile_folder):
    """The doctor's report about the hostile plugins and the installed backends."""
    started = time.monotonic()
    done = run_command_in_new_process(
        "doctor", "--json", "--timeout", DOCTOR_TIMEOUT, folder=hostile_folder
    )
    assert done.stderr == ""
    seconds = time.monotonic() - started
    return json.loads(done.stdout) | {"status": done.returncode, "seconds": seconds}


EXPECTED_FINDINGS = {
    "import_error": ("fails while it is imported: ModuleNotFoundError", "install what it needs"),
    "exits": ("fails while it is imported: SystemExit: 3", "pip uninstall acme-exits"),
    "segfault": (
        "crashes with SIGSEGV while it is imported",
        "PLUGRAD_PLUGINS_DISABLE=acme-segfault",
    ),
    "hang": (f"hangs while it is imported: no answer within {DOCTOR_TIMEOUT} seconds", "--timeout"),
    "malformed": ("cannot be used: ", "pip install --upgrade acme-malformed"),
    "no_manifest": ("does not have plugrad-backend.toml", "pip install --upgrade acme-no_manifest"),
    "future": ("it needs plugin API 2.0", "pip install --upgrade plugrad-core"),
    "duplicate": ("shares its name: other-duplicate", "use 'acme-duplicate::duplicate'"),
    "wrong_kernel": (
        "fails while it is opened: RegistrationError",
        "pip uninstall acme-wrong_kernel",
    ),
    "bad_probe": (
        "fails while it is asked whether it can start: OSError: bus error",
        "pip uninstall acme-bad_probe",
    ),
}


def test_every_hostile_plugin_is_expected():
    assert EXPECTED_FINDINGS.keys() == HOSTILE_PLUGINS.keys()


@pytest.mark.parametrize("name", EXPECTED_FINDINGS)
def test_hostile_plugin_is_reported_with_a_remedy(hostile_report, name):
    text, remedy = EXPECTED_FINDINGS[name]
    subject = f"backend '{name}' (acme-{name} 1.2)"
    (finding,) = [f for f in hostile_report["findings"] if f["subject"] == subject]
    assert finding["level"] == "problem"
    assert text in finding["text"]
    assert remedy in finding["remedy"]
    (record,) = [p for p in hostile_report["plugins"] if p["distribution"] == f"acme-{name}"]
    assert record["health"] == "FAILS"
    assert record["line"] in finding["text"]


@pytest.mark.parametrize("name", ["import_error", "exits", "segfault", "hang", "bad_probe"])
def test_hostile_plugin_is_reported_with_its_own_line_of_code(hostile_report, name):
    (finding,) = [f for f in hostile_report["findings"] if f"'{name}'" in f["subject"]]
    assert f"acme_{name}" in finding["details"].splitlines()[0]
    assert "importlib" not in finding["details"]


@pytest.mark.parametrize("name", ["cpu", "wasm", "webgpu"])
def test_first_party_backends_work_beside_hostile_plugins(hostile_report, name):
    ours = [
        p for p in hostile_report["plugins"] if p["qualified_name"] == f"plugrad-{name}::{name}"
    ]
    if not ours:
        pytest.skip(f"plugrad-{name} is not installed")
    (record,) = ours
    if not record.get("can_start", True):
        pytest.skip(record["line"])
    assert record["health"] in ("ok", "note")
    assert {check["result"] for check in record["checks"]} <= {"agrees", "lacks"}
    assert {"check": "add", "result": "agrees", "why": ""} in record["checks"]


def test_doctor_takes_little_longer_than_its_slowest_plugin(hostile_report):
    assert hostile_report["status"] == 1
    assert hostile_report["seconds"] < 4 * float(DOCTOR_TIMEOUT)


def test_doctor_reports_every_hostile_plugin(hostile_folder):
    names = [name for name in HOSTILE_PLUGINS if name != "hang"]
    done = run_command_in_new_process("doctor", *names, folder=hostile_folder)
    assert done.returncode == 1
    for name in names:
        assert f"backend '{name}' (acme-{name} 1.2)" in done.stdout
        assert f"FAILS   {name}" in done.stdout
    assert done.stdout.endswith(f"\n{len(names) + 1} problems, 0 notes.\n")  # the duplicate is two


def test_interrupted_doctor_kills_its_processes(hostile_folder):
    doctor = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE_COMMAND_PROGRAM, "doctor", "hang", "--timeout", "600"],
        env=clean_environment(hostile_folder),
        cwd=hostile_folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        started = time.monotonic()
        while not (children := child_processes(doctor.pid)) and time.monotonic() < started + 60:
            time.sleep(0.05)
        time.sleep(1)
        doctor.send_signal(signal.SIGINT)
        assert doctor.wait(30) == 130
    finally:
        doctor.kill()
        doctor.wait()
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def child_processes(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        pytest.skip("this system does not tell a process's children")
