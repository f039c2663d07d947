"""Kernels that gain nothing from a device: plugrad's bodies in NumPy, and one image kernel."""

import torch

from plugrad.extend import host_implementations
from plugrad.kernels import (
    detection,
    image,
    optimizers,
    pixels,
    ragged,
    random,
    sparse,
    string,
)
from plugrad_torch.declare import table, update

for family in (detection, optimizers, pixels, ragged, random, sparse, string):
    table.update(host_implementations(family), on_host=True)

update({image.flip_left_right: lambda image: torch.flip(image, (2,))})
