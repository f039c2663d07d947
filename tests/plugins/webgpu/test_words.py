"""Shaders for software devices load vectors as 64-bit words, with unchanged results."""

import numpy as np
import pytest

from plugrad.kernels import activation, binary, linalg, normalization, reduction
from plugrad_webgpu.shaders.words import load_by_long_words

WGSL_SOURCE = """
@group(0) @binding(0) var<storage, read> input: array<vec4<f32>>;  // input[0] is first
@group(0) @binding(1) var<storage, read> places: array<vec4u>;
@group(0) @binding(2) var<storage, read> scalars: array<f32>;
@group(0) @binding(3) var<storage, read> whole: array<vec4i>;
@group(0) @binding(4) var<storage, read_write> output: array<vec4<f32>>;
fn main() {
  output[i] = input[places[scalars[i]].x] + my_input[1] + own.input[2] + vec4f(whole[i]) + f32(arrayLength(&whole));
}
"""


def test_read_only_vectors_are_loaded_as_64_bit_words():
    text = load_by_long_words(WGSL_SOURCE)
    assert "input: array<vec2<u64>>;" in text
    assert "places: array<vec2<u64>>;" in text
    assert "//" not in text
    for untouched in ("scalars: array<f32>", "whole: array<vec4i>", "output: array<vec4<f32>>"):
        assert f"{untouched};" in text
    assert (
        "output[i] = vec4f32_of_words(input[vec4u32_of_words(places[scalars[i]]).x])"
        " + my_input[1] + own.input[2] + vec4f(whole[i])" in text
    )
    assert text.count("fn vec4") == 2
    plain = WGSL_SOURCE.replace("read>", "read_write>")
    assert "u64" not in load_by_long_words(plain)


def test_results_are_the_same_to_the_last_bit(run, make_runner, rng):
    if not run.device.loads_64_bit_words:
        pytest.skip("this device loads no words of 64 bits")
    other = make_runner()
    other.device.loads_64_bit_words = False
    x, w, row = (rng.standard_normal(s, np.float32) for s in ((40, 64), (64, 36), (64,)))
    x[3, 7], x[5, 9], x[6, 1] = np.nan, np.inf, -0.0
    n = rng.integers(-(2**31), 2**31, (6, 32)).astype(np.int32)
    for kernel, values, attributes in (
        (binary.multiply, (x, row), {}),
        (activation.relu, (x,), {}),
        (reduction.sum, (x,), {"axis": (1,)}),
        (reduction.max, (x,), {"reduction_indices": (0, 1)}),
        (reduction.sum, (n,), {"axis": (0, 1)}),
        (reduction.min, (n.view(np.uint32),), {"axis": (0,)}),
        (normalization.softmax, (x,), {"dim": 1}),
        (linalg.matmul, (x, w), {"transpose_a": False, "transpose_b": False}),
    ):
        long, plain = (each(kernel, *values, **attributes) for each in (run, other))
        assert long.tobytes() == plain.tobytes(), kernel.name
