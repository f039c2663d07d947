"""Some tests run once more on another Vulkan driver, each file in a process of its own.

CONTRIBUTING.md tells how to run any test there.
"""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.webgpu import drivers

TESTS = Path(__file__).parents[2]
MOST_SECONDS = 500
MOST_ADDRESSES = 8 << 30
"""In bytes. The driver reserves 3 GB when a device is opened; shaders that grow beyond all bounds end here."""

# What SwiftShader runs that lavapipe does not: subgroups of four, other tiles, another compiler.
CHOSEN = (
    "plugins/webgpu/test_compiling.py",
    "plugins/webgpu/test_product.py",
    "plugins/webgpu/test_subgroups.py",
)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))


@pytest.mark.parametrize("file", CHOSEN)
def test_on_swiftshader(file):
    if drivers.find() is None:
        pytest.skip("SwiftShader is not installed; Debian's package chromium brings it")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *("--driver", drivers.NAME, "--backend", "webgpu", TESTS / file),
        ],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
        preexec_fn=limited,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
