"""A core that is newer than a backend has contracts which the backend lacks: they are missing, or fall back."""

import subprocess
import sys

NEWER_CORE_PROGRAM = """
import sys
from importlib import import_module

import plugrad
from plugrad.errors import KernelNotFound
from plugrad.extend import KERNELS, kernel
from plugrad.kernels import optimizers

# One more contract in each family, before the backend is opened; it takes what another one takes.
new = set()
for like in {like.family: like for like in reversed(KERNELS.values())}.values():
    family = import_module(f"plugrad.kernels.{like.family}")
    name = f"Newer{like.name}"
    if family is optimizers:
        family.newer = optimizers.declare_optimizer_step(name, 1, 0, "Return what descends.")
    else:
        declare = kernel(
            name, family=like.family, is_elementwise=like.is_elementwise, accepts=like.accepts
        )
        family.newer = declare(like.rule)
    new.add(name)
unary_name = next(name for name in new if KERNELS[name].family == "unary")
assert len(new) > 30

backend = sys.argv[1]
with plugrad.use(backend):
    declared = {config.kernel_name for config in plugrad.get_kernels_for_backend(backend)}
    assert declared
    assert not declared & new, declared & new
    x = plugrad.asarray([1.0, 2.0])
    assert plugrad.square(x).tolist() == [1.0, 4.0]
    (moved,) = optimizers.gradient_descent(plugrad.asarray([0.5]), x, x)
    assert moved.tolist() == [0.5, 1.0]
    try:
        plugrad.run_kernel(unary_name, {"x": x})
    except KernelNotFound as error:
        assert backend in str(error), error
    else:
        raise AssertionError("the backend has a kernel that it does not declare")
    if backend != "cpu":
        plugrad.register_kernel(plugrad.KernelConfig(unary_name, "cpu", lambda x: x * x))
        with plugrad.config.override("fallback", "silent"):
            assert plugrad.run_kernel(unary_name, {"x": x}).tolist() == [1.0, 4.0]
"""


def test_kernels_that_a_newer_core_declares_are_missing_or_fall_back(backend):
    # Warnings are errors: a kernel pack that cannot be loaded is left out with a warning.
    subprocess.run([sys.executable, "-W", "error", "-c", NEWER_CORE_PROGRAM, backend], check=True)
