"""How many invocations make a subgroup: a device is asked once, because adapters tell only a range."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import uint32
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad_webgpu.buffers import Recorder

WORKGROUP: Final = 64

_SIZE = Program("subgroup size", partial(shader, "subgroups"))


def invocations_of_subgroup(device: Recorder) -> int:
    """Return the size of the subgroups of a device, which has some; 0 if it differs between them."""
    found = device.launch(plan(_SIZE, (), WORKGROUP, (WORKGROUP,), uint32))
    sizes = np.empty(WORKGROUP, np.uint32)
    device.download(found, sizes, sizes.dtype)
    return int(sizes[0]) if (sizes == sizes[0]).all() else 0
