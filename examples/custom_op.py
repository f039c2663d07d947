"""An op with its own kernel on three backends and its own gradient, outside plugrad, in one page.

python examples/custom_op.py
"""

from __future__ import annotations

import numpy as np

import plugrad
import plugrad_wasm
import plugrad_webgpu
from plugrad.extend import KernelConfig, Spec, gradient, kernel, register_kernel
from plugrad.testing import check_gradient


# The contract: a name, an input, and the shape and dtype of the result.
@kernel("Softsign", family="example", is_elementwise=True)
def softsign_kernel(x: Spec) -> Spec:
    """Return x / (1 + |x|)."""
    return x


# What people call.
def softsign(x: plugrad.Tensor) -> plugrad.Tensor:
    """``x / (1 + |x|)``, a cheap tanh."""
    return softsign_kernel(plugrad.asarray(x))


# One implementation for each backend: NumPy, a WGSL expression, a WebAssembly expression.
IMPLEMENTATIONS = {
    "cpu": lambda x: x / (1 + np.abs(x)),
    "webgpu": plugrad_webgpu.elementwise("x / (1.0 + abs(x))"),
    "wasm": plugrad_wasm.elementwise(
        "(f32.div (local.get $x) (f32.add (f32.const 1) (f32.abs (local.get $x))))"
    ),
}
for backend, implementation in IMPLEMENTATIONS.items():
    register_kernel(KernelConfig("Softsign", backend, implementation))

# The gradient, made of ops: it runs everywhere, and can be differentiated again.
gradient(softsign_kernel, x=lambda dy, x: dy / plugrad.square(1 + plugrad.abs(x)))


def main() -> None:
    """Show the values and check the gradient wherever plugrad can run."""
    for backend in IMPLEMENTATIONS:
        with plugrad.use(backend):
            x = plugrad.asarray([-3.0, -0.5, 0.25, 1.0])
            print(f"{backend:8} {softsign(x).numpy()}")
            check_gradient(softsign, x, dtype="float32")


if __name__ == "__main__":
    main()
