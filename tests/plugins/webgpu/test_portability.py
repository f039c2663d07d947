"""Shaders are portable: a second compiler accepts them, and they avoid features in which drivers differ.

The shaders are those that the rows of the conformance kit create, on a GPU and on a software device.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from plugins.webgpu.test_shaders import SHADER_SUBSTITUTIONS, entry_points
from plugrad.extend import UnsupportedDtype, bool_
from plugrad.kernels import binary, unary
from plugrad.testing.tables import rows
from plugrad_webgpu.driver import native
from plugrad_webgpu.shaders.elements import SHADER_DTYPES
from plugrad_webgpu.shaders.sources import shader

pytestmark = pytest.mark.long

# WebGPU allows these to be off by many units in the last place, or by 2^-11; accurate.wgsl has others.
# It does not say what they give for NaN and infinity, except for `sign`, which is only for integers.
APPROXIMATE_FUNCTIONS = (
    *("exp", "exp2", "log", "log2", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "inverseSqrt", "length", "distance"),
    *("normalize", "smoothstep", "mix", "degrees", "radians", "fma", "ldexp", "frexp", "modf"),
)


@pytest.fixture(scope="module")
def recorded_shaders(make_runner):
    """The sources of all shaders, with a kernel name and an entry point."""
    found = {}
    create_pipeline = native.NativeDevice.create_pipeline

    def create_and_note(self, code, label, entry_point, layout):
        found[code] = label, entry_point
        return create_pipeline(self, code, label, entry_point, layout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.NativeDevice, "create_pipeline", create_and_note)
        runner = make_runner()  # of a device that has compiled nothing yet
        runner.device.loads_64_bit_words = False  # which lavapipe has, and WebGPU does not know
        runner.device.shader_rewrites = ()  # for software devices only
        runner.device.shared_bytes = 16_384  # what WebGPU guarantees
        # Drivers translate a shader when it first runs, which took most of a minute for all of these.
        # Other tests run them.
        assert runner.device.subgroup_size  # which the device finds out by a shader
        idle = SimpleNamespace(**vars(native) | {"dispatch_workgroups": lambda *_: None})
        patch.setattr(runner.device, "_driver", idle)
        for is_software in (True, False):
            runner.device.is_software = is_software
            for row in rows():
                for dtype in row.tested_dtypes:
                    run_conformance_case(runner, row, dtype)
            for dtype in SHADER_DTYPES - {bool_}:
                for _ in range(2):  # a chain is compiled when it is made for the second time
                    run_fused_chain(runner, dtype)
    assert any(";" in label for label, _ in found.values())
    return found


def run_conformance_case(runner, row, dtype):
    """Run the kernel of a conformance case if it runs on the device."""
    config = runner.configs.get(row.kernel.name)
    if (
        config is None
        or config.on_host
        or not row.required_dtypes(dtype) <= {str(d) for d in SHADER_DTYPES}
    ):
        return
    arrays = [None if x is None else runner.to_device(x) for x in row.draw_inputs(dtype)]
    try:
        runner.call(row.kernel, *(arrays or [runner.backend]), **row.attributes(dtype))
    except UnsupportedDtype:
        return
    runner.device.record_pending_calls()  # so that rows do not share chains, which would have many bindings


def run_fused_chain(runner, dtype):
    """Run a fused chain with repeated inputs, two results and equal operands."""
    x, row, one = (runner.to_device(np.ones(shape, dtype)) for shape in ((6, 5), (5,), ()))
    kept = runner.call(binary.add, runner.call(binary.multiply, x, row), one)
    result = runner.call(binary.subtract, kept, runner.call(unary.square, kept))
    question = runner.call(binary.equal, result, result)
    runner.to_host(question)
    return kept


@pytest.fixture(scope="module")
def tint_error():
    pytest.importorskip("pydawn", reason="dawn-python is not installed", exc_type=ImportError)
    from plugins.webgpu import tint

    device = tint.open_dawn_device()
    return lambda code, entry_point: tint.tint_error(device, code, entry_point)


def test_tint_rejects_nonportable_shaders(tint_error):
    source = """
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(SIZE) fn main(@builtin(global_invocation_id) id: vec3u) {
          BODY
          x[id.x] = 1u;
        }
    """
    early = "if (id.x > x[0]) { return; } workgroupBarrier();"
    for size, body, expected in (
        ("64", "", None),
        ("64", early, "uniform control flow"),
        ("64", "undefined();", "undefined"),
        ("512", "", "exceeds"),
    ):
        said = tint_error(source.replace("SIZE", size).replace("BODY", body), "main")
        assert said == expected or expected in said


def test_tint_compiles_every_shader(recorded_shaders, tint_error):
    assert len(recorded_shaders) > 400
    refused = {label: tint_error(code, entry) for code, (label, entry) in recorded_shaders.items()}
    assert {label: said for label, said in refused.items() if said} == {}


@pytest.mark.parametrize("names", SHADER_SUBSTITUTIONS, ids="+".join)
def test_tint_compiles_every_file(names, tint_error):
    code = shader(*names, **SHADER_SUBSTITUTIONS[names])
    assert [said for name in entry_points(code) if (said := tint_error(code, name))] == []


def test_no_shader_calls_a_function_that_drivers_approximate(recorded_shaders):
    calls = re.compile(rf"(?<![\w.])({'|'.join(APPROXIMATE_FUNCTIONS)})\(")
    found = {
        (label, *calls.findall(strip_comments(code)))
        for code, (label, _) in recorded_shaders.items()
    }
    assert {x for x in found if len(x) > 1} == set()


def test_no_shader_compares_a_number_with_itself(recorded_shaders):
    """Drivers with fast-math evaluate `x != x` to false, so NaN must be recognized by its bits."""
    same = re.compile(r"(?<![\w.\])])([a-z][\w.]*) (?:!=|==) \1(?![\w.\[(])")
    found = {
        (label, *same.findall(strip_comments(code)))
        for code, (label, _) in recorded_shaders.items()
    }
    assert {x for x in found if len(x) > 1} == set()


def test_no_shader_needs_an_optional_feature(recorded_shaders):
    assert [c for c in recorded_shaders if re.search(r"^(enable|requires) ", c, re.MULTILINE)] == []


def strip_comments(code):
    """Return WGSL source without comments."""
    return re.sub(r"//.*", "", code)
