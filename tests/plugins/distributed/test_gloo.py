"""gloo, as torchrun starts it, where torch is installed."""

import os
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

GLOO_PROGRAM = """
import sys, os
import plugrad_distributed as dist
from plugrad_distributed.testing import check_collective
world = dist.init()
assert world.collective.name == "gloo", world.reason
print(len(world.submit(check_collective, world.collective).result()), flush=True)
os._exit(0)  # its last check lets an exchange time out
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_gloo_is_found_and_passes_the_kit():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    common = {**os.environ, **place, "GLOO_SOCKET_IFNAME": "lo", "PLUGRAD_BACKEND": "cpu"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", GLOO_PROGRAM],
            env={**common, "RANK": str(rank), "WORLD_SIZE": "3"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    assert [rank.communicate(timeout=100)[0] for rank in ranks] == ["6\n"] * 3
