"""Running sums and products along an axis, in blocks."""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plugrad.extend import complex64, float32, int32, int64, uint32
from plugrad.kernels import scan
from plugrad_webgpu.algorithms.reduce import MAX_LOOP_STEPS
from plugrad_webgpu.declare import table
from plugrad_webgpu.memory.buffers import as_complex, as_float_pairs
from plugrad_webgpu.shaders.elements import WGSL_STORAGE_TYPES, require_dtype, vector_type
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from plugrad.extend import DType
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

SOFTWARE_MAX_INVOCATIONS = 256
"""The largest number of invocations of a scan on a software device."""
GPU_MAX_INVOCATIONS = 65_536
"""The largest number of invocations of a scan on a GPU."""
# The shortest blocks: shorter ones do not justify the dispatches for their totals.
SOFTWARE_MIN_BLOCK_ELEMENTS = 1024
"""The least number of elements in a block on a software device."""
GPU_MIN_BLOCK_ELEMENTS = 64
"""The least number of elements in a block on a GPU."""

ScanPassName = Literal["totals", "rows", "blocks"]
"""What a program computes: the totals of blocks, or running totals of whole rows or of blocks."""


class ScanRule(NamedTuple):
    """The WGSL that accumulates running totals of one dtype."""

    dtype: DType
    total_wgsl_type: str
    """The WGSL type of a running total."""
    combine_expression: str
    """The WGSL combination of the totals a and b."""
    identity: str
    """The WGSL numbers of the total that leaves others unchanged."""
    total_of_element: str = "x"
    """The WGSL total of the element x alone."""
    element_of_total: str = "total"
    """The WGSL element that is the result for a total."""


class ScanLevel(NamedTuple):
    """The dispatches of one level of a blocked scan: over elements, over totals of blocks, and so on."""

    totals_plan: Plan | None
    """The plan that computes the totals of blocks, or None where each row is one block."""
    scan_plan: Plan
    """The plan that computes running totals within blocks."""


# A float32 sum of ones stops at 2^24, and one of tenths loses digits long before.
COMPENSATED_FLOAT_SUM = ScanRule(
    float32,
    "vec2f",
    "add_pairs(a, b, parameters.zero)",
    "0.0",
    "vec2f(x, 0.0)",
    "total.x + total.y",
)
"""The rule of float32 sums whose total is a number and its rounding error."""
SUM_RULES = {
    float32: COMPENSATED_FLOAT_SUM,
    int32: ScanRule(int32, "i32", "a + b", "0"),
    uint32: ScanRule(uint32, "u32", "a + b", "0"),
    int64: ScanRule(int64, "vec2u", "sum_i64(a, b)", "0, 0"),
}
"""The rules of cumulative sums by dtype."""
PRODUCT_RULES = {
    t: ScanRule(t, WGSL_STORAGE_TYPES[t], "a * b", "1") for t in (float32, int32, uint32)
} | {
    int64: ScanRule(int64, "vec2u", "product_i64(a, b)", "1, 0"),
    complex64: ScanRule(
        complex64, WGSL_STORAGE_TYPES[complex64], "complex_product(a, b)", "1.0, 0.0"
    ),
}
"""The rules of cumulative products by dtype."""


def run_scan(
    rules: Mapping[DType, ScanRule], x: GpuArray, *, axis: int, exclusive: bool, reverse: bool
) -> GpuArray:
    """Return the cumulative sum or product along an axis, by the rule for the dtype of x."""
    require_dtype(x.dtype, rules, "the webgpu kernel of running totals")
    device = x.buffer.device
    levels = _scan_levels(rules[x.dtype], x.shape, axis, exclusive, reverse, device.is_software)
    inputs = [x]
    for level in levels:
        if level.totals_plan is not None:
            inputs.append(device.launch(level.totals_plan, inputs[-1]))
    running = device.launch(levels[-1].scan_plan, inputs.pop())
    for level, values in zip(levels[-2::-1], reversed(inputs), strict=True):
        running = device.launch(level.scan_plan, values, running)
    return running


def cumulative_sum(x: GpuArray, **attributes: Any) -> GpuArray:
    """Return cumulative sums; real and imaginary parts are summed separately."""
    if x.dtype == complex64:
        return as_complex(run_scan(SUM_RULES, as_float_pairs(x), **attributes))
    return run_scan(SUM_RULES, x, **attributes)


@lru_cache(maxsize=1024)
def _scan_levels(
    rule: ScanRule, shape: Shape, axis: int, exclusive: bool, reverse: bool, is_software: bool
) -> tuple[ScanLevel, ...]:
    """Return the levels of a scan along an axis."""
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return tuple(
        _iter_scan_levels(rule, shape, (outer, shape[axis], inner), exclusive, reverse, is_software)
    )


def _iter_scan_levels(
    rule: ScanRule,
    shape: Shape,
    outer_length_inner: Shape,
    exclusive: bool,
    reverse: bool,
    is_software: bool,
) -> Iterator[ScanLevel]:
    """Yield the levels of a blocked scan; those above the first are exclusive scans of block totals."""
    outer, length, inner = outer_length_inner
    size = (2,) if rule.total_wgsl_type == "vec2f" else ()
    is_state = False
    # Vectors may end beyond a single row, in the padding of its buffer, but must begin with it.
    is_wide = inner == 1 and (length % 4 == 0 or (outer == 1 and not reverse))
    lanes = ("0123" if not reverse else "3210") if is_wide else ""
    if is_wide:
        length = -(-length // 4)
    while True:
        run = _scan_block_size(outer * inner, length, is_software)
        blocks = -(-length // run)
        count = outer * blocks * inner
        parameters = (count, length, inner, run, blocks, exclusive, reverse, 0)
        role: ScanPassName = "blocks" if blocks > 1 else "rows"
        scan_plan = plan(
            _scan_program(rule, role, is_state, lanes), parameters, count, shape, rule.dtype
        )
        if blocks <= 1:
            yield ScanLevel(None, scan_plan)
            return
        shape = (outer, blocks, inner, *size)
        program = _scan_program(rule, "totals", is_state, lanes)
        yield ScanLevel(plan(program, parameters, count, shape, rule.dtype), scan_plan)
        length, exclusive, reverse, is_state, lanes = blocks, True, False, True, ""


def _scan_block_size(row_count: int, row_length: int, is_software: bool) -> int:
    """Return the number of steps in each block of a row, for enough parallel work and bounded loops."""
    invocations, least = (
        (SOFTWARE_MAX_INVOCATIONS, SOFTWARE_MIN_BLOCK_ELEMENTS)
        if is_software
        else (GPU_MAX_INVOCATIONS, GPU_MIN_BLOCK_ELEMENTS)
    )
    return min(max(-(-row_length * row_count // invocations), least), MAX_LOOP_STEPS)


@cache
def _scan_program(
    rule: ScanRule, pass_name: ScanPassName, reads_block_totals: bool, lanes: str
) -> Program:
    """Return the program of one pass of a scan, over elements or block totals; `lanes` are digits in scan order.

    The `lanes` of vectors are in the order of accumulation; without lanes, elements are not vectors.
    """
    item = rule.total_wgsl_type if reads_block_totals else WGSL_STORAGE_TYPES[rule.dtype]
    element = vector_type(item, 4) if lanes else item
    result = rule.total_wgsl_type if pass_name == "totals" else element
    each = [f"total = joined(total, state_of(values{lane}));" for lane in _lane_selectors(lanes)]
    if pass_name != "totals":
        keep = "result_of(select(total, before, parameters.is_exclusive == 1u));"
        results = [f"results{lane} = {keep}" for lane in _lane_selectors(lanes)]
        each = [f"before = total; {a} {b}" for a, b in zip(each, results, strict=True)]
        each = [f"var before = total; var results = {element}();", *each, "output[at] = results;"]
    arrays = [f"var<storage, read_write> output: array<{result}>;"]
    if pass_name == "blocks":
        arrays.insert(0, f"var<storage, read> starts: array<{rule.total_wgsl_type}>;")
    source = partial(
        shader,
        "scan",
        element=element,
        item=item,
        state=rule.total_wgsl_type,
        join=rule.combine_expression,
        lift="x" if reads_block_totals else rule.total_of_element,
        lower="total" if reads_block_totals else rule.element_of_total,
        bindings="\n".join(f"@group(0) @binding({i}) {a}" for i, a in enumerate(arrays, start=1)),
        start="starts[index]"
        if pass_name == "blocks"
        else f"{rule.total_wgsl_type}({rule.identity})",
        each="\n    ".join(each),
        last="output[index] = total;" if pass_name == "totals" else "",
    )
    return Program(f"scan {rule.combine_expression} {pass_name}", source)


def _lane_selectors(lanes: str) -> list[str]:
    """Return the WGSL selector, such as ``[0]``, of each digit in `lanes`; without digits, one empty selector."""
    return [f"[{lane}]" for lane in lanes] or [""]


table.update({scan.cumsum: cumulative_sum, scan.cumprod: partial(run_scan, PRODUCT_RULES)})
