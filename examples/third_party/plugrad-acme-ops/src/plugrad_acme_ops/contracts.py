"""The contracts. All plugins share one set of kernel names, so these begin with Acme."""

from plugrad.extend import FLOATING, Shaped, ShapeError, Spec, check_dtype, check_same_dtype, kernel


@kernel("AcmeSwiGLU", family="acme", accepts=FLOATING)
def swiglu(gate: Spec, up: Spec) -> Spec:
    """Return ``gate / (1 + exp(-gate)) * up``; both inputs have the same shape."""
    return _infer_gated_unit("AcmeSwiGLU", gate, up)


@kernel("AcmeGeGLU", family="acme", accepts=FLOATING)
def geglu(gate: Spec, up: Spec) -> Spec:
    """Return ``gelu(gate) * up``; both inputs have the same shape."""
    return _infer_gated_unit("AcmeGeGLU", gate, up)


def _infer_gated_unit(kernel_name: str, gate: Spec, up: Spec) -> Spec:
    """Return the shape and dtype of the result, after a check of the inputs."""
    check_dtype(kernel_name, gate, FLOATING)
    if gate.shape != up.shape:
        raise ShapeError(
            f"{kernel_name}: gate has shape {gate.shape} and up {up.shape}; they must be equal"
        )
    return Shaped(gate.shape, check_same_dtype(kernel_name, gate, up))
