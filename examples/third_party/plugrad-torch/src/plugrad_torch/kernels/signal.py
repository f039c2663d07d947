"""Fourier transforms; PyTorch refuses batches without rows."""

from collections.abc import Callable
from typing import Any

import torch

from plugrad.kernels import signal
from plugrad_torch.declare import Array, update


def allow_no_rows(transform: Callable[..., Array]) -> Callable[..., Array]:
    """Return a transform that also takes batches without rows; one row of zeros gives the shape and the dtype."""

    def run(input: Array, **attrs: Any) -> Array:
        if input.numel():
            return transform(input, **attrs)
        one = transform(torch.zeros(input.shape[-1], dtype=input.dtype), **attrs)
        return one.expand(*input.shape[:-1], -1)

    return run


update(
    {
        signal.fft: allow_no_rows(torch.fft.fft),
        signal.ifft: allow_no_rows(torch.fft.ifft),
        signal.rfft: allow_no_rows(torch.fft.rfft),
        signal.irfft: allow_no_rows(lambda input, *, length: torch.fft.irfft(input, length)),
    }
)
