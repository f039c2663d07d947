"""``plugrad distributed check``, alone and in a world, and the section of the doctor."""

import json
import sys
from importlib.metadata import entry_points

import pytest

import plugrad_distributed as dist
from plugins.distributed.test_worlds import needs_mpi, start_program
from plugrad.cli import main
from plugrad.errors import ArgumentValueError
from plugrad_distributed.check import check_world
from plugrad_distributed.hooks import plugrad_doctor_section


@pytest.fixture(autouse=True)
def closed_world():
    yield
    dist.close()


def test_command_in_a_single_process_lists_installed_collectives(capsys):
    assert "distributed" in {entry.name for entry in entry_points(group="plugrad.plugins")}
    assert main(["distributed", "check", "--megabytes", "0.01"]) == 0
    printed = capsys.readouterr().out
    assert "1 rank, connected by single; decided by" in printed
    assert "cpu:0" in printed
    assert "mpiexec -n 4 plugrad distributed check" in printed
    with pytest.raises(ArgumentValueError, match="--megabytes=0"):
        check_world(megabytes=0)


@needs_mpi
def test_a_world_shows_ranks_and_exchanges():
    done, _ = start_program(
        2, "-m", "plugrad", "distributed", "check", "--megabytes", "0.1", "--json"
    )
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert (found["collective"], found["problems"]) == ("mpi", [])
    assert [rank["device"] for rank in found["ranks"]] == ["cpu:0", "cpu:0"]
    assert [(e["bytes"], e["is_right"]) for e in found["exchanges"]] == [
        (4096, True),
        (10**5, True),
    ]
    assert all(e["bytes_a_second"] > 0 for e in found["exchanges"])


def test_ranks_of_different_versions_are_a_problem(monkeypatch, capsys):
    from plugrad_distributed import check

    describe = check._describe_rank
    ranks = [{**describe(dist.init("single"), 400), "rank": r, "python": f"3.{r}"} for r in (0, 1)]
    assert check._find_problems(ranks, []) == [
        "rank 1 has python 3.1 where rank 0 has 3.0; install the same"
    ]


def test_doctor_names_the_missing_library(monkeypatch):
    monkeypatch.setattr("plugrad_distributed.discovery.find_spec", lambda name: None)
    title, text = plugrad_doctor_section()
    assert "many processes" in title
    assert 'mpi     mpi4py is not installed; pip install "plugrad[mpi]"' in text
    assert "single  ready" in text
    assert "torch" not in sys.modules
