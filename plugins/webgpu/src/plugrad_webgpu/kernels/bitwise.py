"""Bitwise kernels. WGSL shifts by the count modulo 32; plugrad shifts by the count itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.extend import bool_, int32, int64, uint32
from plugrad.kernels import bitwise
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.declare import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad_webgpu.algorithms.bodies import HostFunction
    from plugrad_webgpu.memory.buffers import GpuArray


def make_bitwise(
    expression: str, bool_expression: str, body: HostFunction
) -> Callable[..., GpuArray]:
    """Return the implementation of WGSL expressions for integers and for bools; `body` is their NumPy function.

    NumPy has one function for both.
    """
    expressions = dict.fromkeys((int32, uint32, int64), expression) | {bool_: bool_expression}
    return elementwise(expressions, ("a", "b"), body=body)


table.update(
    {
        bitwise.bitwise_and: make_bitwise("a & b", "a && b", np.bitwise_and),
        bitwise.bitwise_or: make_bitwise("a | b", "a || b", np.bitwise_or),
        bitwise.bitwise_xor: make_bitwise("a ^ b", "a != b", np.bitwise_xor),
        bitwise.invert: elementwise(
            dict.fromkeys((int32, uint32, int64), "~x") | {bool_: "!x"}, body=np.invert
        ),
        bitwise.left_shift: elementwise(
            {
                int32: "select(a << (u32(b) & 31u), 0, u32(b) > 31u)",
                uint32: "select(a << (b & 31u), 0u, b > 31u)",
                int64: "shifted_left_i64(a, b)",
            },
            ("a", "b"),
            body=np.left_shift,
        ),
        bitwise.right_shift: elementwise(
            {
                int32: "a >> min(u32(b), 31u)",
                uint32: "select(a >> (b & 31u), 0u, b > 31u)",
                int64: "shifted_right_i64(a, b)",
            },
            ("a", "b"),
            body=np.right_shift,
        ),
    }
)
