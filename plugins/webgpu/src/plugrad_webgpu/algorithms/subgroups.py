"""Values that the invocations of a workgroup share, by subgroups where the device has them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import uint32
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import fill_templates, shader

if TYPE_CHECKING:
    from plugrad_webgpu.memory.buffers import CommandRecorder

DEFAULT_WORKGROUP_SIZE: Final = 64
"""The number of invocations in a workgroup, unless a program chooses another one."""

_SUBGROUP_SIZE_PROGRAM = Program("subgroup size", partial(shader, "subgroups"))
"""The program that writes the subgroup size of the device."""
_SHUFFLE_LOOP_WGSL: Final = """for (var step = min(lanes, {workgroup}u) / 2u; step > 0u; step /= 2u) {{
    let a = value;
    let b = subgroupShuffleXor(value, step);
    value = {combine};
  }}"""
"""The WGSL template of a loop that combines the values of a subgroup."""


def measure_subgroup_size(device: CommandRecorder) -> int:
    """Return the subgroup size of a device that supports subgroups, as measured by a shader.

    The device is asked once, because adapters tell only a range. It is 0 if the size differs between subgroups, or if
    they are not made of neighbours.
    """
    found = device.launch(
        plan(_SUBGROUP_SIZE_PROGRAM, (), DEFAULT_WORKGROUP_SIZE, (DEFAULT_WORKGROUP_SIZE,), uint32)
    )
    sizes = np.empty(DEFAULT_WORKGROUP_SIZE, np.uint32)
    device.download(found, sizes, sizes.dtype)
    return int(sizes[0]) if (sizes == sizes[0]).all() else 0


def uses_subgroups(device: CommandRecorder) -> bool:
    """Return whether the invocations of a workgroup combine their results by subgroup operations.

    On software devices, where it takes longer, no invocation waits for another one anyway.
    """
    return not device.is_software and device.subgroup_size > 0


def workgroup_reduction_function(
    function_name: str,
    combine_expression: str,
    wgsl_type: str,
    has_subgroups: bool,
    workgroup_size: int = DEFAULT_WORKGROUP_SIZE,
) -> str:
    """Return a WGSL function that combines one value of each invocation of a workgroup.

    Its arguments are the value, the place of the invocation in the workgroup, and the size of its subgroup.

    Args:
        function_name: Its name.
        combine_expression: What combines the values `a` and `b`. It may be called in any order, but the order
            is the same in each run. NaN is what it makes of it: the functions for subgroups that WGSL has may drop it.
        wgsl_type: The type of a value.
        has_subgroups: Whether the device has subgroups of neighbours.
        workgroup_size: The invocations of a workgroup.
    """
    exchange = (
        _SHUFFLE_LOOP_WGSL.format(workgroup=workgroup_size, combine=combine_expression)
        if has_subgroups
        else ""
    )
    return fill_templates(
        "joined",
        name=function_name,
        combine=combine_expression,
        T=wgsl_type,
        exchange=exchange,
        workgroup=str(workgroup_size),
    )


def subgroup_size_substitutions(has_subgroups: bool) -> dict[str, str]:
    """Return the template substitutions ``$lanes_given`` and ``$lanes``, which pass the subgroup size in a shader.

    A driver may choose another size for each shader, so the one that was found by `measure_subgroup_size` does not
    tell.
    """
    if has_subgroups:
        return {"lanes_given": "@builtin(subgroup_size) lanes: u32,", "lanes": "lanes"}
    return {"lanes_given": "", "lanes": "1u"}
