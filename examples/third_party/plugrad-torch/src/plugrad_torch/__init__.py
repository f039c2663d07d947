"""A backend for plugrad whose arrays are PyTorch's tensors; torch is imported when the backend is opened."""

from plugrad_torch.device import TorchBackend


def backend() -> TorchBackend:
    """Return a backend that is not open yet."""
    return TorchBackend()
