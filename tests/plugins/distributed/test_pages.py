"""The program of the guide gives one result in all worlds, and the collective of the other page passes the kit."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE_FOLDER = Path(__file__).parents[3] / "docs" / "guide"
CODE_BLOCK_PATTERN = re.compile(r"^```python\n(?!>>>)(.*?)^```$", re.M | re.S)


def code_blocks(page):
    return CODE_BLOCK_PATTERN.findall((GUIDE_FOLDER / page).read_text("utf-8"))


def make_environment(**more):
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PLUGRAD_BACKEND": "cpu", **more}


def test_the_program_has_at_most_40_lines_and_gives_one_result(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(code_blocks("many-machines.md")[0])
    assert len(program.read_text().splitlines()) <= 40
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.is_file():
        pytest.skip("there is no mpiexec; install plugrad[mpi]")
    printed = [
        subprocess.check_output(
            [*start, sys.executable, program], env=make_environment(), text=True
        )
        for start in ([], [mpiexec, "-n", "2"])
    ]
    losses = [float(text.removeprefix("loss ")) for text in printed]
    assert losses[1] == pytest.approx(losses[0], abs=2e-4)
    assert losses[0] < 0.5


def test_a_collective_of_a_third_party_is_found_and_passes_the_kit(tmp_path):
    module, check, _ = *code_blocks("writing-a-collective.md"), None
    (tmp_path / "plugrad_star.py").write_text(module)
    (tmp_path / "check.py").write_text(
        "import plugrad_distributed as dist\nassert 'star' in dist.collectives()\n" + check
    )
    metadata = tmp_path / "plugrad_star-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugrad-star\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[plugrad.collectives]\nstar = plugrad_star:Star\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, tmp_path / "check.py"],
            env=make_environment(
                STAR_RANK=str(rank), STAR_SIZE="3", STAR_PORT=port, PYTHONPATH=str(tmp_path)
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(3)
    ]
    printed = [rank.communicate(timeout=100)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], printed
    assert all("barrier_and_timeout" in text for text in printed)
