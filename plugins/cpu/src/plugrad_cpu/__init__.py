"""The reference backend: every kernel in NumPy, written to be read."""

from plugrad.extend import Backend


def backend() -> Backend:
    """Return a CPU backend that is not open yet."""
    from plugrad_cpu.device import Cpu

    return Cpu()
