"""Parts of complex numbers."""

import torch

from plugrad.kernels import complex as contracts
from plugrad_torch.declare import update

update(
    {
        contracts.complex: torch.complex,
        contracts.real: lambda input: input.real.clone(),
        contracts.imag: lambda input: input.imag.clone(),
        contracts.complex_abs: torch.abs,
        contracts.conj: torch.conj_physical,
    }
)
