"""Some tests run once more on another Vulkan driver, or on machine code that is optimized, in processes of their own.

CONTRIBUTING.md tells how to run any test there.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.webgpu import drivers

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[2]
MOST_SECONDS = 500
MOST_ADDRESSES = 8 << 30
"""In bytes. The driver reserves 3 GB when a device is opened; shaders that grow beyond all bounds end here."""

BODIES = "plugins/webgpu/test_bodies.py::test_values_are_those_of_the_device"
CHOSEN = {
    # What SwiftShader runs that lavapipe does not: subgroups of four, other tiles, another compiler
    "compiling": ["plugins/webgpu/test_compiling.py"],
    "products": ["plugins/webgpu/test_product.py"],
    # Numbers that it rounds twice or takes as 0, fewer bindings, loads that its compiler took minutes for
    "borders": [
        *("plugins/webgpu/test_subgroups.py", f"{BODIES}[Cast-int64]", f"{BODIES}[Cast-uint32]"),
        "plugins/webgpu/test_hosting.py::test_this_device_was_asked_about_subnormals",
        "plugins/webgpu/test_parts.py::test_transfers_and_copies",
        "plugins/webgpu/test_parts.py::test_elementwise_calls_and_reductions",
        "plugins/webgpu/test_parts.py::test_products",
    ],
}


OPTIMIZED = ["plugins/webgpu/test_special_values.py", "plugins/webgpu/test_chains.py"]
"""What compilers might combine or leave out. `make test` lets Mesa optimize nothing else."""


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))


def run_tests(tests, *arguments, preexec=None, **variables):
    """Run tests on webgpu in a new process, which must pass them."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *("--backend", "webgpu", *arguments),
            *(TESTS / test for test in tests),
        ],
        cwd=TESTS.parent,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
        preexec_fn=preexec,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("chosen", CHOSEN)
def test_on_swiftshader(chosen):
    if drivers.find() is None:
        pytest.skip("SwiftShader is not installed; Debian's package chromium brings it")
    run_tests(CHOSEN[chosen], "--driver", drivers.NAME, preexec=limited)


def test_on_optimized_machine_code():
    if not os.environ.get("GALLIVM_PERF"):
        pytest.skip("all tests run on optimized machine code")
    run_tests(OPTIMIZED, GALLIVM_PERF="")
