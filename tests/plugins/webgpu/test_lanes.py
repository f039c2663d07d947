"""Shaders for software devices load uniform values first and divide in float64, with unchanged results."""

import numpy as np
import pytest

from plugrad.extend import uint32
from plugrad.kernels import binary, movement, normalization, reduction, unary
from plugrad_webgpu.shaders.lanes import divide_in_doubles, load_uniforms_first
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import linked

WGSL_SOURCE = """
struct Parameters { count: u32, sizes: array<u32, 2> }
var<immediate> parameters: Parameters;
@group(0) @binding(0) var<storage, read> numbers: array<vec4f>;  // numbers[0u] is first
@group(0) @binding(1) var<storage, read> places: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<vec4f>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= parameters.count) { return; }
  output[id.x] = numbers[0u] * f32(places[id.x]) + output[0u] + own.numbers[0u] + numbers[0u];
}
@compute @workgroup_size(8) fn other() { output[1] = vec4f(f32(parameters.sizes[1])); }
"""


def test_uniforms_are_loaded_at_the_beginning_of_each_entry_point():
    text = load_uniforms_first(WGSL_SOURCE)
    loads = "parameters = given_parameters; first_of_numbers = numbers[0u];"
    assert text.count(f") {{ {loads}") == 2
    assert "var<immediate> given_parameters: Parameters;" in text
    assert text.endswith(
        "var<private> parameters: Parameters;\nvar<private> first_of_numbers: vec4f;"
    )
    assert (
        "first_of_numbers * f32(places[id.x]) + output[0u] + own.numbers[0u] + first_of_numbers;"
        in text
    )
    lines = WGSL_SOURCE.splitlines()
    assert [line.startswith("  output") for line in lines] == [
        line.startswith("  output") for line in text.splitlines()[: len(lines)]
    ]


def test_a_shader_without_uniforms_is_the_same():
    plain = "@compute @workgroup_size(1)\nfn main() { let x = 1; }"
    assert load_uniforms_first(plain) == plain


def test_a_table_of_parameters_is_loaded_first():
    table = "@group(0) @binding(3) var<storage, read> parameters"
    text = load_uniforms_first(WGSL_SOURCE.replace("var<immediate> parameters", table))
    assert f"{table.replace('parameters', 'given_parameters')}: Parameters;" in text
    assert "{ parameters = given_parameters;" in text


def test_long_arrays_of_parameters_stay_in_memory():
    text = load_uniforms_first(WGSL_SOURCE.replace("array<u32, 2>", "array<u32, 65>"))
    assert "var<immediate> parameters: Parameters;" in text
    assert "given_parameters" not in text


def test_only_the_snippet_divides_in_doubles():
    text = divide_in_doubles(linked("let x = quotient(a, b) + a / b;"))
    assert "let x = quotient(a, b) + a / b;" in text
    assert "return u32(f64(a) / f64(b));" in text


def test_results_are_the_same_to_the_last_bit(run, make_runner, rng):
    if not run.device.shader_rewrites:
        pytest.skip("this device runs the shaders as they are")
    plain = make_runner()
    plain.device.shader_rewrites = ()
    x, row = (rng.standard_normal(s, np.float32) for s in ((40, 3, 36), (3, 1)))
    x[3, 1, 7], x[5, 2, 9], x[6, 0, 1] = np.nan, np.inf, -0.0
    one = np.float32([0.3])
    n = rng.integers(-(2**31), 2**31, (6, 32)).astype(np.int32)
    for kernel, values, attributes in (
        (binary.multiply, (x, row), {}),
        (binary.add, (x, one), {}),
        (unary.tanh, (x,), {}),
        (movement.transpose, (x,), {"perm": (2, 0, 1)}),
        (reduction.sum, (n,), {"axis": (0, 1)}),
        (normalization.softmax, (x,), {"dim": 2}),
    ):
        first, second = (each(kernel, *values, **attributes) for each in (run, plain))
        assert first.tobytes() == second.tobytes(), kernel.name


QUOTIENTS = """
struct Parameters { count: u32 }
var<immediate> parameters: Parameters;
@group(0) @binding(0) var<storage, read> dividends: array<u32>;
@group(0) @binding(1) var<storage, read> divisors: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < parameters.count) { output[id.x] = quotient(dividends[id.x], divisors[id.x]); }
}
"""


def test_quotients_are_exact(run, rng):
    divisors = np.array([1, 2, 3, 2**31, 2**32 - 1, *rng.integers(1, 2**32, 995)], np.uint64)
    divisors[500:] >>= rng.integers(0, 31, 500).astype(np.uint64)
    divisors = np.maximum(divisors, 1)
    multiples = (divisors * rng.integers(0, 2**32 // divisors, endpoint=True)).astype(np.int64)
    program = Program("quotients", lambda: linked(QUOTIENTS))
    step = plan(program, (divisors.size,), divisors.size, divisors.shape, uint32)
    for offset in (-1, 0, 1):
        dividends = np.clip(multiples + offset, 0, 2**32 - 1).astype(np.uint32)
        operands = (dividends, divisors.astype(np.uint32))
        found = run.to_host(run.device.launch(step, *map(run.to_device, operands)))
        np.testing.assert_array_equal(found, operands[0] // operands[1])
