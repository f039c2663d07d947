"""The reference backend: all kernels in NumPy, written to be read."""

from plugrad.extend import Backend


def backend() -> Backend:
    """Return a CPU backend that has not been opened."""
    from plugrad_cpu.device import Cpu

    return Cpu()
