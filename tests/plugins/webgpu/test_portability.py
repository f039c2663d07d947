"""Shaders mean the same everywhere: another compiler takes them, and they avoid what drivers differ in.

The shaders are those that the rows of the conformance kit create, on a GPU and on a software device.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from plugins.webgpu.test_shaders import SHADERS, entry_points
from plugrad.extend import UnsupportedDtype, bool_
from plugrad.kernels import binary, unary
from plugrad.testing.tables import rows
from plugrad_webgpu.driver import native
from plugrad_webgpu.shaders.elements import SHADER_DTYPES
from plugrad_webgpu.shaders.sources import shader

pytestmark = pytest.mark.long

# WebGPU allows these to be off by many units in the last place, or by 2^-11; accurate.wgsl has others.
# It does not say what they give for NaN and infinity, except for `sign`, which is only for integers.
APPROXIMATE = (
    *("exp", "exp2", "log", "log2", "pow", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "inverseSqrt", "length", "distance"),
    *("normalize", "smoothstep", "mix", "degrees", "radians", "fma", "ldexp", "frexp", "modf"),
)


@pytest.fixture(scope="module")
def recorded(make_runner):
    """The sources of all shaders, with the name of a kernel and an entry point."""
    found = {}
    create_pipeline = native.NativeDevice.create_pipeline

    def create_and_note(self, code, label, entry_point, layout):
        found[code] = label, entry_point
        return create_pipeline(self, code, label, entry_point, layout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.NativeDevice, "create_pipeline", create_and_note)
        runner = make_runner()  # of a device that has compiled nothing yet
        runner.device.loads_64_bit_words = False  # which lavapipe has, and WebGPU does not know
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
                    call(runner, row, dtype)
            for dtype in SHADER_DTYPES - {bool_}:
                for _ in range(2):  # a chain is compiled when it is made for the second time
                    call_in_a_chain(runner, dtype)
    assert any(";" in label for label, _ in found.values())
    return found


def call(runner, row, dtype):
    """Run the kernel of a row if it runs on the device."""
    config = runner.configs.get(row.kernel.name)
    if (
        config is None
        or config.on_host
        or not row.required_dtypes(dtype) <= {str(d) for d in SHADER_DTYPES}
    ):
        return
    arrays = [None if x is None else runner.up(x) for x in row.draw_inputs(dtype)]
    try:
        runner.call(row.kernel, *(arrays or [runner.backend]), **row.attributes(dtype))
    except UnsupportedDtype:
        return
    runner.device.record_pending_calls()  # so that rows do not share chains, which would have many bindings


def call_in_a_chain(runner, dtype):
    """Run a chain with repeated inputs, two results and operands that are equal."""
    x, row, one = (runner.up(np.ones(shape, dtype)) for shape in ((6, 5), (5,), ()))
    kept = runner.call(binary.add, runner.call(binary.multiply, x, row), one)
    result = runner.call(binary.subtract, kept, runner.call(unary.square, kept))
    question = runner.call(binary.equal, result, result)
    runner.down(question)
    return kept


@pytest.fixture(scope="module")
def complaint():
    pytest.importorskip("pydawn", reason="dawn-python is not installed", exc_type=ImportError)
    from plugins.webgpu import tint

    device = tint.open_device()
    return lambda code, entry_point: tint.complaint(device, code, entry_point)


def test_tint_refuses_what_is_not_portable(complaint):
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
        said = complaint(source.replace("SIZE", size).replace("BODY", body), "main")
        assert said == expected or expected in said


def test_tint_compiles_every_shader(recorded, complaint):
    assert len(recorded) > 400
    refused = {label: complaint(code, entry) for code, (label, entry) in recorded.items()}
    assert {label: said for label, said in refused.items() if said} == {}


@pytest.mark.parametrize("names", SHADERS, ids="+".join)
def test_tint_compiles_every_file(names, complaint):
    code = shader(*names, **SHADERS[names])
    assert [said for name in entry_points(code) if (said := complaint(code, name))] == []


def test_no_shader_calls_a_function_that_drivers_approximate(recorded):
    calls = re.compile(rf"(?<![\w.])({'|'.join(APPROXIMATE)})\(")
    found = {(label, *calls.findall(plain(code))) for code, (label, _) in recorded.items()}
    assert {x for x in found if len(x) > 1} == set()


def test_no_shader_compares_a_number_with_itself(recorded):
    """Drivers with fast-math take `x != x` to be false. NaN is known by its bits."""
    same = re.compile(r"(?<![\w.\])])([a-z][\w.]*) (?:!=|==) \1(?![\w.\[(])")
    found = {(label, *same.findall(plain(code))) for code, (label, _) in recorded.items()}
    assert {x for x in found if len(x) > 1} == set()


def test_no_shader_needs_an_optional_feature(recorded):
    assert [c for c in recorded if re.search(r"^(enable|requires) ", c, re.MULTILINE)] == []


def plain(code):
    """Return a source without comments."""
    return re.sub(r"//.*", "", code)
