"""Worlds of several processes: MPI connects them, and each world is started once for many tests.

`matrix` runs more steps on more backends than these tests.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import plugrad

MPIEXEC = Path(sys.executable).with_name("mpiexec")
SCENARIOS = Path(__file__).with_name("scenarios.py")
RESULTS_MARK = "RESULTS "
SCENARIO_NAMES = (
    *(
        "train_on_backends",
        "train_on_mixed_backends",
        "train_in_variants",
        "average_float16_gradients",
        "train_with_loss_scale",
        "fit_distributed",
        "compare_dropout",
        "resume_from_checkpoint",
        "profile_exchanges",
    ),
    *("count_overlapping_sums", "minimize_different_variables"),
)
SINGLE_PROCESS_SCENARIO_NAMES = [
    name
    for name in SCENARIO_NAMES
    if name not in ("minimize_different_variables", "train_on_mixed_backends")
]
LARGEST_WORLD_SIZE = 4

needs_mpi = pytest.mark.skipif(
    not MPIEXEC.is_file() and shutil.which("mpiexec") is None,
    reason="there is no mpiexec; install plugrad[mpi]",
)
pytestmark = needs_mpi
BACKENDS = sorted(
    p.name
    for p in plugrad.backends()
    if p.name in ("cpu", "wasm", "webgpu") and p.status in ("available", "active")
)


OPEN_MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
"""What Open MPI needs, if it is the MPI here: it starts neither as root nor more ranks than there are cores."""
MPICH_ENVIRONMENT = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1"}
"""Ranks of MPICH sleep between looks for messages: there are more ranks than cores, and those that wait take turns."""


def start_scenarios(size, *names, folder="", backends="cpu", **environment):
    """Run scenarios in an MPI world, and return the finished process and its seconds."""
    environment |= {"DISTRIBUTED_BACKENDS": backends, "DISTRIBUTED_FOLDER": str(folder)}
    return start_program(size, str(SCENARIOS), *names, **environment)


def start_program(size, *arguments, timeout=120, **environment):
    """Run a Python program in an MPI world, and return the finished process and its seconds."""
    command = [str(MPIEXEC) if MPIEXEC.is_file() else "mpiexec", "-n", str(size)]
    began = time.monotonic()
    done = subprocess.run(
        [*command, sys.executable, *arguments],
        env={
            **os.environ,
            **OPEN_MPI_ENVIRONMENT,
            **MPICH_ENVIRONMENT,
            "OPENBLAS_NUM_THREADS": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done, time.monotonic() - began


def parse_results(output):
    lines = [line for line in output.splitlines() if line.startswith(RESULTS_MARK)]
    assert lines, output
    return json.loads(lines[0].removeprefix(RESULTS_MARK))


@pytest.fixture(scope="module")
def results_of_world(tmp_path_factory):
    """A function that returns the results of the scenarios in a world of a size; all test workers share one run."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "worlds"
    root.mkdir(exist_ok=True)

    def find(size):
        answer = root / f"{size}.json"
        try:
            (root / f"{size}.started").touch(exist_ok=False)
        except FileExistsError:
            deadline = time.monotonic() + 120
            while not answer.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        else:
            names = {
                1: SINGLE_PROCESS_SCENARIO_NAMES,
                LARGEST_WORLD_SIZE: ["train_on_backends", "run_conformance_checks"],
            }.get(size, SCENARIO_NAMES)
            done, _ = start_scenarios(
                size, *names, folder=root, backends=",".join(BACKENDS if size < 3 else ["cpu"])
            )
            answer.with_suffix(".part").write_text(done.stdout + done.stderr[-3000:])
            answer.with_suffix(".part").rename(answer)
        return parse_results(answer.read_text())

    return find


def assert_same_training(found, expected):
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-6)
    np.testing.assert_allclose(found["weights"], expected["weights"], rtol=1e-6, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 3, LARGEST_WORLD_SIZE])
def test_losses_and_weights_match_one_process(results_of_world, size):
    found, expected = (
        results_of_world(size)["train_on_backends"],
        results_of_world(1)["train_on_backends"],
    )
    for name in found:
        assert found[name]["equal"], name
        assert_same_training(found[name], expected[name])


@pytest.mark.long
def test_ranks_on_different_backends_have_equal_replicas(results_of_world):
    mixed, alone = (
        results_of_world(2)["train_on_mixed_backends"],
        results_of_world(1)["train_on_backends"]["cpu"],
    )
    count = len(mixed["losses"])
    assert mixed["equal"]
    np.testing.assert_allclose(mixed["losses"], alone["losses"][:count], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_sharded_state_changes_no_bit(results_of_world, size):
    found = results_of_world(size)["train_in_variants"]
    assert found["sharded"]["weights"] == found["plain"]["weights"]
    assert found["clipped and sharded"]["weights"] == found["clipped"]["weights"]
    assert found["sharded"]["slots"] == found["plain"]["slots"] > 0


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ["clipped", "accumulated", "accumulated traced"])
def test_clipping_and_accumulation_match_one_process(results_of_world, size, name):
    found, expected = (
        results_of_world(size)["train_in_variants"],
        results_of_world(1)["train_in_variants"],
    )
    np.testing.assert_allclose(found[name]["weights"], expected[name]["weights"], atol=1e-6)
    assert found[name]["weights"] != found["plain"]["weights"]
    assert found[name]["equal"]


@pytest.mark.parametrize("size", [2, 3])
def test_exchanged_bytes_equal_the_size_of_the_gradients(results_of_world, size):
    gradients = 6 * 8 + 2 * 8 + 8 * 3 + 3
    statistics = 2 * (8 + 1 + 8)  # means, their count and variances, in both passes
    found = results_of_world(size)["train_in_variants"]["plain"]
    assert found["summed"] == 10 * 4 * (gradients + 1 + statistics)  # 1 is the loss


@pytest.mark.parametrize("size", [2, 3])
def test_float16_gradients_are_averaged_in_float32(results_of_world, size):
    found = results_of_world(size)["average_float16_gradients"]
    assert found["half"] == [-40000.0] * 3
    np.testing.assert_allclose(found["single"], -np.mean(np.arange(size) + 1.0), rtol=1e-6)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ["plain", "clipped", "clipped by value", "sharded", "accumulated"])
def test_scaled_losses_give_the_results_of_one_process(results_of_world, size, name):
    found = results_of_world(size)["train_with_loss_scale"][name]
    expected = results_of_world(1)["train_with_loss_scale"][name]
    assert found["equal"]
    assert found["scale"] == expected["scale"] == 4.0  # after a step that was skipped
    np.testing.assert_allclose(found["weights"], expected["weights"], atol=1e-6)
    np.testing.assert_allclose(found["losses"][-1], expected["losses"][-1], rtol=1e-6)


@pytest.mark.parametrize("size", [2, 3])
def test_fit_gives_the_results_of_one_process(results_of_world, size):
    found, expected = (
        results_of_world(size)["fit_distributed"],
        results_of_world(1)["fit_distributed"],
    )
    assert found["equal"]
    assert found["logged"] == 1 + 3  # a header, and one line for each epoch
    for epoch, wanted in zip(found["results"], expected["results"], strict=True):
        assert epoch == pytest.approx(wanted, rel=1e-5)
    assert found["weighted"] == pytest.approx(expected["weighted"], rel=1e-4, abs=1e-6)


def test_dropout_differs_by_rank_and_matches_one_process_on_rank_0(results_of_world):
    first, second, third = results_of_world(3)["compare_dropout"]
    assert [first] == results_of_world(1)["compare_dropout"]
    assert first != second != third != first


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_resumed_training_ends_with_the_same_bits(results_of_world, size):
    found = results_of_world(size)["resume_from_checkpoint"]
    assert found["continued"] == found["whole"]


def test_profile_shows_the_exchanges(results_of_world):
    place, nbytes, seconds = results_of_world(2)["profile_exchanges"]["all_reduce"]
    assert (place, nbytes) == ("mpi", 4004)  # the gradients and the loss
    assert seconds > 0


@pytest.mark.parametrize("size", [2, 3])
def test_gradient_buckets_are_exchanged_during_the_backward_pass(results_of_world, size):
    assert results_of_world(size)["count_overlapping_sums"] == {"during": [1, 2, 3], "after": 4}


@pytest.mark.parametrize("size", [2, 3])
def test_mismatched_ranks_get_an_error_before_the_reduction(results_of_world, size):
    found = results_of_world(size)["minimize_different_variables"]
    assert "rank 0 has 'gradient 1 of 2: w float32[1]'" in found["message"]
    assert "rank 1 has 'gradient 1 of 2: b float32[2]'" in found["message"]
    assert found["unchanged"]
    assert found["reduced"] == 0


# --- ends ----------------------------------------------------------------------------------------


def test_mpi_passes_the_kit(results_of_world):
    assert len(results_of_world(LARGEST_WORLD_SIZE)["run_conformance_checks"]) == 6


def test_a_rank_that_raises_ends_the_others_and_its_traceback_comes_first():
    done, seconds = start_scenarios(2, "raise_on_last_rank")
    assert done.returncode != 0
    assert seconds < 30
    text = done.stderr
    assert "rank 1 of 2 ends with an error" in text
    assert "ValueError: the last rank has had enough" in text
    assert text.count("Traceback") == 1 or text.index("Traceback") > text.index("rank 1")


def test_a_job_with_a_killed_rank_ends_and_its_restart_gives_the_same_bits(
    results_of_world, tmp_path, pytestconfig
):
    rng = np.random.default_rng()
    for number in range(pytestconfig.getoption("--tries")):
        folder = tmp_path / str(number)
        folder.mkdir()
        step = str(rng.integers(12))
        done, seconds = start_scenarios(2, "kill_last_rank", folder=folder, DISTRIBUTED_STEP=step)
        assert done.returncode != 0
        assert seconds < 30
        done, _ = start_scenarios(2, "restart_from_checkpoint", folder=folder)
        assert (
            parse_results(done.stdout)["restart_from_checkpoint"]
            == results_of_world(2)["resume_from_checkpoint"]["whole"]
        ), step


def test_a_rank_that_leaves_the_program_ends_the_others():
    done, _ = start_scenarios(2, "exit_on_first_rank")
    assert done.returncode != 0
    assert "the end of the program" in done.stderr


def test_timeout_error_names_the_missing_rank():
    done, _ = start_scenarios(2, "delay_second_rank", PLUGRAD_DISTRIBUTED_TIMEOUT="0.5")
    assert done.returncode != 0
    assert "rank 0 has waited 0.5 s" in done.stderr
    assert "for rank 1" in done.stderr
