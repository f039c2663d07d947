"""Kernels from other packages: what their shaders are given, and what they cannot break."""

import math
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    Shaped,
    UnsupportedDtype,
    float32,
    float64,
    int8,
    int32,
    string,
)
from plugrad_webgpu import elementwise, load_wgsl_kernel, stencil
from plugrad_webgpu.shaders.elements import SHADER_DTYPES

SHADER_TEMPLATE = """
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let index = linear_index(id, groups, 64u);
  if (index < parameters.size) { output[index] = VALUE; }
}
"""


def make_contract(rule):
    """Return a contract that is not registered."""
    from plugrad.extend import Kernel

    return Kernel("acme>Test", rule, "acme")


def same_shape_rule(x):
    return Shaped(x.shape, x.dtype)


def shader_with_value(value):
    return SHADER_TEMPLATE.replace("VALUE", value)


def test_a_stencil_reads_zeros_outside_its_inputs(run, rng):
    laplacian = stencil(
        """
        let i = at[0];
        let j = at[1];
        return x_at(i - 1, j) + x_at(i + 1, j) + x_at(i, j - 1) + x_at(i, j + 1) - 4.0 * x_at(i, j);
        """,
        make_contract(same_shape_rule),
    )
    for shape in ((5, 7), (1, 1), (0, 3), (70, 64)):
        x = rng.standard_normal(shape).astype(np.float32)
        padded = np.pad(x, 1)
        rows = padded[:-2, 1:-1] + padded[2:, 1:-1]
        expected = rows + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * x
        np.testing.assert_allclose(run.to_host(laplacian(run.to_device(x))), expected, atol=1e-5)


def test_a_stencil_of_several_inputs_and_attributes(run, rng):
    def rule(x, taps, *, stride: int, bias: float):
        return Shaped(((x.shape[0] - taps.shape[0]) // stride + 1,), x.dtype)

    convolve = stencil(
        """
        var total = parameters.bias;
        for (var k = 0; k < i32(parameters.taps_shape[0]); k++) {
          total += x_at(at[0] * parameters.stride + k) * taps_at(k);
        }
        return total;
        """,
        make_contract(rule),
    )
    x, taps = rng.standard_normal(50).astype(np.float32), np.float32([1, -2, 3])
    for stride, bias in ((1, 0), (2, 0.5), (3, -1)):
        expected = np.correlate(x, taps, "valid")[::stride] + bias
        actual = run.to_host(
            convolve(run.to_device(x), run.to_device(taps), stride=stride, bias=bias)
        )
        np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("dtype", sorted(SHADER_DTYPES, key=str), ids=str)
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (1, 2, 3, 2, 2)], ids=str)
def test_each_dtype_and_rank(run, rng, dtype, shape):
    copy = make_contract(same_shape_rule)
    place = ", ".join(f"at[{axis}]" for axis in range(len(shape)))
    x = rng.integers(0, 2, shape).astype(dtype)
    for kernel in (
        stencil(f"return x_at({place});", copy),
        load_wgsl_kernel(shader_with_value("x[index]"), copy),
    ):
        y = run.to_host(kernel(run.to_device(x)))
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


def test_the_results_of_narrow_dtypes_wrap_around(run):
    x = run.to_device(np.array([1, -100, 100], np.int8))
    y = load_wgsl_kernel(shader_with_value("2 * x[index]"), make_contract(same_shape_rule))(x)
    assert y.dtype == int8
    widened = stencil("return x_at(at[0]);", make_contract(lambda x: Shaped(x.shape, int32)))(y)
    np.testing.assert_array_equal(run.to_host(widened), [2, 56, -56])


def test_comments_of_the_author(run):
    head = "/* As in https://example.com,\n   the paper /* with { an erratum // */, p. 9. */ // a name:\r"
    source = head + shader_with_value("x[index] /* the input; // and nothing else */ + 1.0")
    y = load_wgsl_kernel(source, make_contract(same_shape_rule))(run.to_device(np.float32([2, 3])))
    assert run.to_host(y).tolist() == [3, 4]


@pytest.mark.parametrize(
    ("before", "value"),
    [
        ("fn first(x: array<f32, 2>) -> f32 { return x[0u]; }\n", "first(array(index_f, 7.0))"),
        ("fn first(i: f32) -> f32 { let x = vec2f(i); return x[0u]; }\n", "first(index_f)"),
        ("fn first(i: f32) -> f32 { var x = vec2f(i); return x[0u]; }\n", "first(index_f)"),
    ],
)
def test_a_variable_with_the_name_of_an_input(run, before, value):
    source = before + shader_with_value(
        value.replace("index_f", "f32(index)") + " + 0.0 * x[index]"
    )
    kernel = load_wgsl_kernel(source, make_contract(same_shape_rule))
    assert run.to_host(kernel(run.to_device(np.float32([5, 6, 7])))).tolist() == [0, 1, 2]


def test_attributes_have_the_types_of_the_contract(run):
    def rule(
        *,
        a: float,
        b: int,
        c: bool,
        d: tuple[int, ...],
        e: tuple[float, ...],
        shape: tuple[int, ...],
    ):
        return Shaped(shape, float32)

    kernel = load_wgsl_kernel(
        shader_with_value(
            "array<f32, 7>(parameters.a, f32(parameters.b), f32(parameters.c + 1u), f32(parameters.d[0]),"
            " f32(parameters.d[1]), parameters.e[0], f32(parameters.shape[0]))[index]"
        ),
        make_contract(rule),
    )
    for a, b in ((1, -2), (0.5, np.int64(7))):
        y = kernel(run.backend, a=a, b=b, c=True, d=(3, -4), e=(1, np.float32(0.25)), shape=(7,))
        np.testing.assert_array_equal(run.to_host(y), [a, b, 2, 3, -4, 1, 7])


def test_equal_attributes_of_different_types_and_signs(run):
    def rule(*, what):
        return Shaped((2,), float32)

    quotients = "vec2f(f32(parameters.what / 2), f32(parameters.what))[index]"
    kernel = load_wgsl_kernel(shader_with_value(quotients), make_contract(rule))
    for value, expected in ((1, [0, 1]), (1.0, [0.5, 1]), (True, [0, 1]), (1.0, [0.5, 1])):
        assert run.to_host(kernel(run.backend, what=value)).tolist() == expected
    for value in (0.0, -0.0, 0.0):
        y = run.to_host(kernel(run.backend, what=value))
        assert math.copysign(1, y[0]) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        ("valid", ArgumentError, "'valid' cannot be passed"),
        (None, ArgumentError, "None cannot be passed"),
        ((), ArgumentValueError, "no empty arrays"),
        (2**31, ArgumentValueError, "32 bits"),
    ],
)
def test_attributes_that_do_not_fit(run, value, error, expected):
    def rule(*, what):
        return Shaped((), float32)

    with pytest.raises(error, match=expected):
        load_wgsl_kernel(shader_with_value("1.0"), make_contract(rule))(run.backend, what=value)


@pytest.mark.parametrize("length", [40, 5000])
def test_attributes_of_more_bytes_than_a_call_brings_along(run, length):
    def rule(*, what):
        return Shaped((length,), float32)

    kernel = load_wgsl_kernel(shader_with_value("f32(parameters.what[index])"), make_contract(rule))
    for values in (range(length), range(7, length + 7)):
        y = kernel(run.backend, what=tuple(values))
        np.testing.assert_array_equal(run.to_host(y), list(values))


def test_shared_memory_and_a_number_of_invocations(run, rng):
    def rule(x):
        return Shaped(x.shape[:1], x.dtype)

    row_sums = load_wgsl_kernel(
        """
        var<workgroup> parts: array<f32, 64>;
        @compute @workgroup_size(8, 8)
        fn sums(
          @builtin(workgroup_id) group: vec3u,
          @builtin(num_workgroups) groups: vec3u,
          @builtin(local_invocation_index) lane: u32,
        ) {
          let row = group.y * groups.x + group.x;
          let columns = parameters.x_shape[1];
          var total = 0.0;
          if (row < parameters.size) {
            for (var j = lane; j < columns; j += 64u) { total += x[row * columns + j]; }
          }
          parts[lane] = total;
          for (var half = 32u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if (lane < half) { parts[lane] += parts[lane + half]; }
          }
          if (lane == 0u && row < parameters.size) { output[row] = parts[0]; }
        }
        """,
        make_contract(rule),
        invocations=lambda x: 64 * x.shape[0],
    )
    for shape in ((3, 500), (70_000, 3)):  # and more workgroups than one dimension has
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(run.to_host(row_sums(run.to_device(x))), x.sum(1), atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "before", "nbytes"),
    [
        ("array<f32, 4000>", "", 16_000),
        ("array<i64, 64 * 5>", "", 2560),
        ("array<vec2<u64>, 0x100u>", "", 4096),
        ("array<array<f32, MANY>, 2>", "const MANY = 30 * (40 + 60) / 2;", 12_000),
        ("Table", "alias Table = array<vec4f, 1000>;", 16_000),
        ("Pair", "struct Pair { number: u32, rest: array<u64, 500> }", 4008),
    ],
)
@pytest.mark.parametrize("place", ["function", "private"])
def test_too_large_arrays_of_an_invocation(run, kind, before, nbytes, place, monkeypatch):
    """Software devices took up to minutes to compile these; GPUs may allow larger arrays."""
    monkeypatch.setattr(run.device, "is_software", True)
    variable = f"var<{place}> table: {kind};" if place == "private" else f"var table: {kind};"
    outside, inside = (variable, "") if place == "private" else ("", variable)
    source = f"""
{before}
{outside}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {{ {inside} output[id.x] = x[id.x]; }}
"""
    contract = make_contract(same_shape_rule)
    started = time.process_time()
    with pytest.raises(
        ArgumentValueError, match=rf"{nbytes} bytes of arrays in each invocation, more than the \d+"
    ):
        load_wgsl_kernel(source, contract)(run.to_device(np.float32([1])))
    assert time.process_time() - started < 2


def test_a_table_of_an_invocation(run, monkeypatch):
    monkeypatch.setattr(run.device, "is_software", True)
    contract = make_contract(same_shape_rule)
    body = "var table = array<f32, 4>(1.0, 2.0, 4.0, 8.0); return table[index % 4u] * x_at(at[0]);"
    found = run.to_host(stencil(body, contract)(run.to_device(np.ones(6, np.float32))))
    assert found.tolist() == [1, 2, 4, 8, 1, 2]
    many = f"let table = array<f32, 600>({', '.join(['1.0'] * 600)}); return table[index];"
    with pytest.raises(ArgumentValueError, match="2400 bytes of arrays"):
        stencil(many, contract)(run.to_device(np.ones(6, np.float32)))


@pytest.mark.parametrize(
    ("source", "nbytes"),
    [
        ("var<workgroup> a: array<f32, 16384>;", 65536),
        ("const N: u32 = 4097u; var <workgroup> a: array<vec3<f32>, N>;", 65552),
        ("var<workgroup> a: array<array<atomic<u32>, 100>, 0x64>; var<workgroup> b: f32;", 40016),
        ("alias Row = array<mat2x2<f32>, 1000>; var<workgroup> a: array<Row, 9>;", 144000),
        (
            "struct S { a: vec2f, b: array<u32, 9>, c: vec3f, }\nvar<workgroup> s: array<S, 900>;",
            57600,
        ),
    ],
)
def test_too_much_shared_memory(run, source, nbytes, monkeypatch):
    """Some drivers do not check the limit, and crash or corrupt other memory."""
    monkeypatch.setattr(run.device, "shared_bytes", 1 << 15)  # GPUs may have more
    use = f"{source}\n{shader_with_value('x[index]')}"
    kernel = load_wgsl_kernel(use, make_contract(same_shape_rule))
    with pytest.raises(
        ArgumentValueError, match=rf"{nbytes} bytes of shared memory .* than the \d+"
    ):
        kernel(run.to_device(np.ones(3, np.float32)))
    fits = re.sub(r"\d{3,}|0x64|\b9\b(?=>;$)", "2", use.partition("@compute")[0])
    fine = load_wgsl_kernel(fits + shader_with_value("x[index]"), make_contract(same_shape_rule))
    assert run.to_host(fine(run.to_device(np.ones(3, np.float32)))).tolist() == [1, 1, 1]


def test_a_kernel_from_a_file(run, tmp_path):
    path = tmp_path / "cube.wgsl"
    path.write_text(shader_with_value("x[index] * x[index] * x[index]"))
    for source in (path, str(path)):
        assert run.to_host(
            load_wgsl_kernel(source, make_contract(same_shape_rule))(run.to_device(np.float32([2])))
        ) == [8]
    with pytest.raises(ArgumentError, match=r"missing\.wgsl"):
        load_wgsl_kernel(tmp_path / "missing.wgsl", make_contract(same_shape_rule))
    with pytest.raises(ArgumentError, match="must be a string of WGSL"):
        load_wgsl_kernel(7, make_contract(same_shape_rule))


def test_the_compiler_names_the_line_of_the_author(run):
    x = run.to_device(np.ones(3, np.float32))
    for kernel, line in (
        (stencil("\n\n  return undefined_name;", make_contract(same_shape_rule)), 3),
        (load_wgsl_kernel(shader_with_value("undefined_name"), make_contract(same_shape_rule)), 5),
    ):
        with pytest.raises(ArgumentValueError) as caught:
            kernel(x)
        assert "'acme>Test' does not compile: " in str(caught.value)
        assert "undefined_name" in str(caught.value)
        assert f"wgsl:{line}:" in str(caught.value)
    np.testing.assert_array_equal(run.to_host(elementwise("x + x")(x)), [2, 2, 2])


EXTRA_BINDING = "@group(0) @binding(7) var<storage, read> y: array<f32>;"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (shader_with_value("1u"), "cannot convert elements of `u32` to `f32`"),
        (shader_with_value("y[index]") + EXTRA_BINDING, "binding: 7 } is not available"),
        (
            shader_with_value("1.0") + "@group(0) @binding(0) var<storage, read> x: array<f32>;",
            "redefinition",
        ),
        (shader_with_value("1.0").replace("(64)", "(4096)"), "must be less or equal to"),
        (shader_with_value("f(1.0)") + "fn f(x: f32) -> f32 { return f(x); }", "recursive"),
        (shader_with_value("f32(1 / 0)"), "Division by zero"),
        (shader_with_value("(" * 5000 + "1.0" + ")" * 5000), "brackets inside each other"),
        (shader_with_value("1.0" + " + 1.0" * 20_000), "operators in one statement"),
        (
            shader_with_value("1.0") + f"alias A = {'array<' * 500}f32{', 1>' * 500};",
            "arrays in one type",
        ),
        (shader_with_value("1.0 /* \udc80 */"), "not Unicode"),
        (shader_with_value("1.0") + "\0", "does not compile"),
    ],
    ids=lambda v: v[:20],
)
def test_shaders_that_do_not_compile(run, source, expected):
    x = run.to_device(np.ones(3, np.float32))
    with pytest.raises(ArgumentValueError, match=expected):
        load_wgsl_kernel(source, make_contract(same_shape_rule))(x)
    assert run.to_host(x).sum() == 3


def test_shaders_at_the_source_limits_compile(run):
    """The test runs in a new process, which would crash if the limits were too high."""
    code = """
import numpy as np
import plugrad_webgpu
backend = plugrad_webgpu.backend()
backend.open("")
x = backend.from_numpy(np.ones(3, np.float32))
for expression in ("(" * 120 + "x" + ")" * 120, "x" + " + x" * 490):
    print(backend.to_numpy(plugrad_webgpu.elementwise(expression)(x))[0])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["1.0", "491.0"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("fn helper() {}", "0 entry points"),
        (
            shader_with_value("1.0") + shader_with_value("1.0").replace("main", "other"),
            "2 entry points",
        ),
        (
            shader_with_value("1.0").replace("(64)", "(SIZE)") + "const SIZE = 64;",
            "written in digits",
        ),
    ],
)
def test_a_source_has_one_entry_point(source, expected):
    with pytest.raises(ArgumentValueError, match=expected):
        load_wgsl_kernel(source, make_contract(same_shape_rule))


def test_contracts_that_a_shader_cannot_implement(run):
    x = run.to_device(np.ones(3, np.float32))

    def takes_list(*inputs):
        return same_shape_rule(inputs[0])

    with pytest.raises(ArgumentError, match="takes a list"):
        stencil("return 1.0;", make_contract(takes_list))
    with pytest.raises(ArgumentValueError, match="2 outputs"):
        stencil("return 1.0;", make_contract(lambda x: (same_shape_rule(x), same_shape_rule(x))))(x)
    with pytest.raises(UnsupportedDtype, match="float64"):
        stencil("return 1.0;", make_contract(lambda x: Shaped(x.shape, float64)))(x)
    with pytest.raises(UnsupportedDtype, match="string"):
        stencil("return 1.0;", make_contract(lambda x: Shaped(x.shape, string)))(x)


def test_out_of_bounds_accesses_do_not_affect_other_arrays(run, rng):
    far = load_wgsl_kernel(
        """
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3u) {
          output[id.x + 4000000000u] = 7.0;
          output[id.x + 100000u] = x[id.x + 3000000000u];
          output[id.x] = x[id.x];
        }
        """,
        make_contract(same_shape_rule),
    )
    others = [run.to_device(rng.standard_normal(64).astype(np.float32)) for _ in range(20)]
    before = [run.to_host(x) for x in others]
    assert run.to_host(far(others[0])).shape == (64,)
    for x, values in zip(others, before, strict=True):
        np.testing.assert_array_equal(run.to_host(x), values)
