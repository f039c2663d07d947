"""The contract of the kernel. All plugins share one set of kernel names, so this one begins with Acme."""

from plugrad.extend import FLOATING, Shaped, ShapeError, Spec, accepted, agreed, kernel


@kernel("AcmeSwiGLU", family="acme", accepts=FLOATING)
def swiglu(gate: Spec, up: Spec) -> Spec:
    """Return ``gate / (1 + exp(-gate)) * up``; both inputs have the same shape."""
    accepted("AcmeSwiGLU", gate, FLOATING)
    if gate.shape != up.shape:
        raise ShapeError(
            f"AcmeSwiGLU: gate has shape {gate.shape} and up {up.shape}; they must be equal"
        )
    return Shaped(gate.shape, agreed("AcmeSwiGLU", gate, up))
