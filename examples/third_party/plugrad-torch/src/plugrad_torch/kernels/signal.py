"""Fourier transforms; PyTorch refuses batches without rows."""

from collections.abc import Callable
from typing import Any

import torch

from plugrad.kernels import signal
from plugrad_torch.declare import Array, update


def rows(transform: Callable[..., Array]) -> Callable[..., Array]:
    """Return a transform that takes no rows, too: one row of zeros is transformed for the shape and the dtype."""

    def run(input: Array, **attrs: Any) -> Array:
        if input.numel():
            return transform(input, **attrs)
        one = transform(torch.zeros(input.shape[-1], dtype=input.dtype), **attrs)
        return one.expand(*input.shape[:-1], -1)

    return run


update(
    {
        signal.fft: rows(torch.fft.fft),
        signal.ifft: rows(torch.fft.ifft),
        signal.rfft: rows(torch.fft.rfft),
        signal.irfft: rows(lambda input, *, length: torch.fft.irfft(input, length)),
    }
)
