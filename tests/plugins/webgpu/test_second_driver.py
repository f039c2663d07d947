"""Some tests run once more on another Vulkan driver, or as in programs of users, in processes of their own.

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

TESTS_FOLDER = Path(__file__).parents[2]
MAX_SECONDS = 500
MAX_ADDRESS_SPACE = 8 << 30
"""In bytes. The driver reserves 3 GB when a device is opened; shaders that grow beyond all bounds end here."""

HOST_VALUES_TEST = "plugins/webgpu/test_bodies.py::test_values_match_the_device"
TESTS_BY_SUBJECT = {
    # What SwiftShader runs that lavapipe does not: subgroups of four, other tiles, another compiler
    "compiling": ["plugins/webgpu/test_compiling.py"],
    "products": ["plugins/webgpu/test_product.py"],
    # Numbers that it rounds twice or takes as 0, fewer bindings, loads that its compiler took minutes for
    "borders": [
        *(
            "plugins/webgpu/test_subgroups.py",
            f"{HOST_VALUES_TEST}[Cast-int64]",
            f"{HOST_VALUES_TEST}[Cast-uint32]",
        ),
        "plugins/webgpu/test_hosting.py::test_device_that_keeps_subnormals_is_detected",
        "plugins/webgpu/test_parts.py::test_transfers_and_copies",
        "plugins/webgpu/test_parts.py::test_elementwise_calls_and_reductions",
        "plugins/webgpu/test_parts.py::test_products_of_split_arrays",
    ],
}


TESTS_ON_OPTIMIZED_CODE = ["plugins/webgpu/test_special_values.py", "plugins/webgpu/test_chains.py"]
"""What compilers might combine or leave out. `make test` lets Mesa optimize nothing else."""
TESTS_ON_THREADS = [
    "plugins/webgpu/test_reduction.py",
    "plugins/webgpu/test_sorting.py",
    "plugins/webgpu/test_interrupts.py",
]
"""What depends on the order of workgroups, or on the thread that computes. Elsewhere `make test` has no threads."""
MESA_THREADS = 4


def limit_address_space():
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))


def run_tests(tests, *arguments, preexec=None, **variables):
    """Run tests on webgpu in a new process; they must pass."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *("--backend", "webgpu", *arguments),
            *(TESTS_FOLDER / test for test in tests),
        ],
        cwd=TESTS_FOLDER.parent,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=MAX_SECONDS,
        preexec_fn=preexec,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("chosen", TESTS_BY_SUBJECT)
def test_on_swiftshader(chosen):
    if drivers.find_swiftshader() is None:
        pytest.skip("SwiftShader is not installed; Debian's package chromium brings it")
    run_tests(
        TESTS_BY_SUBJECT[chosen], "--driver", drivers.SWIFTSHADER_NAME, preexec=limit_address_space
    )


def test_on_optimized_machine_code():
    if not os.environ.get("GALLIVM_PERF"):
        pytest.skip("all tests run on optimized machine code")
    run_tests(TESTS_ON_OPTIMIZED_CODE, GALLIVM_PERF="")


def test_on_several_threads():
    if not os.environ.get("LP_NUM_THREADS"):
        pytest.skip("all tests run on as many threads as there are cores")
    run_tests(TESTS_ON_THREADS, LP_NUM_THREADS=str(MESA_THREADS))
