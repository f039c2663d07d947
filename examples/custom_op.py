"""A new op outside plugrad, in one page: a kernel with implementations for three backends, and a gradient.

python examples/custom_op.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import plugrad
import plugrad_wasm
import plugrad_webgpu
from plugrad.extend import KernelConfig, Spec, gradient, kernel, register_kernel
from plugrad.testing import check_gradient


# The contract: a name, an input, and a rule for the shape and dtype of the result.
@kernel("Softsign", family="example", is_elementwise=True)
def softsign_kernel(x: Spec) -> Spec:
    """Return x / (1 + |x|)."""
    return x


# The op, which users call.
def softsign(x: plugrad.Tensor) -> plugrad.Tensor:
    """The softsign ``x / (1 + |x|)``, a fast approximation of tanh."""
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

# The gradient is composed of ops, so it runs on every backend and can be differentiated again.
gradient(softsign_kernel, x=lambda dy, x: dy / plugrad.square(1 + plugrad.abs(x)))


def main() -> None:
    """Print values, check the gradient and draw the function on each of the three backends."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True, layout="constrained")
    for backend, ax in zip(IMPLEMENTATIONS, axes, strict=True):
        with plugrad.use(backend):
            print(f"{backend:8} {softsign(plugrad.asarray([-3.0, -0.5, 0.25, 1.0])).numpy()}")
            check_gradient(softsign, plugrad.asarray([-3.0, 0.25]), dtype="float32")
            x = plugrad.linspace(-4, 4, 200)
            ax.plot(x, softsign(x), x, plugrad.grad(lambda x: plugrad.sum(softsign(x)))(x))
            ax.set(title=f"softsign and its gradient on {x.device}")
    figure.savefig("custom_op.png", dpi=100)


if __name__ == "__main__":
    main()
