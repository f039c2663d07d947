"""Scans."""

from collections.abc import Callable
from typing import Any

import torch

from plugrad.kernels import scan
from plugrad_torch.declare import Array, update


def make_scan(function: Callable[..., Array], identity: int) -> Callable[..., Array]:
    """Return a scan by a function of PyTorch; floats are accumulated in double precision."""

    def run(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
        if reverse:
            return run(x.flip(axis), axis=axis, exclusive=exclusive, reverse=False).flip(axis)
        if exclusive and x.shape[axis]:
            first: Any = torch.full_like(x.narrow(axis, 0, 1), identity)
            x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
        wide = torch.float64 if x.dtype is torch.float32 else x.dtype
        return function(x, axis, dtype=wide).to(x.dtype)

    return run


update({scan.cumsum: make_scan(torch.cumsum, 0), scan.cumprod: make_scan(torch.cumprod, 1)})
