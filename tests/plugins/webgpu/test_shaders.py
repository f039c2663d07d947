"""Every shader compiles, and every file is listed here."""

import re
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest

from consistency.committed import committed_kernel_table, is_listed
from plugrad.extend import KERNELS, float32
from plugrad_webgpu.algorithms.subgroups import (
    subgroup_size_substitutions,
    workgroup_reduction_function,
)
from plugrad_webgpu.algorithms.tiles import TILES_BY_NAME
from plugrad_webgpu.driver.native import BindGroupLayout
from plugrad_webgpu.shaders.chains import plain_store_substitutions
from plugrad_webgpu.shaders.elements import SHADER_DTYPES
from plugrad_webgpu.shaders.sources import SNIPPET_FILES, linked, shader

SHADERS_FOLDER = files("plugrad_webgpu") / "shaders"
WINDOW_SUBSTITUTIONS = {
    "width": "4",
    "element": "vec4<f32>",
    "integers": "vec4<i32>",
    "bits": "vec4<u32>",
    "mask": "vec4<bool>",
    "lanes": "vec4i(0, 1, 2, 3)",
    "bindings": "@group(0) @binding(0) var<storage, read> input: array<vec4<f32>>;",
    **plain_store_substitutions(1, "vec4<f32>"),
    "cells_within": "(length + dilation - 1) / dilation",
    "cell_at": "offset / dilation",
    "start": "var sum = Element();",
    "result": "sum",
}
MOVEMENT_SUBSTITUTIONS = {
    "axes": "9",
    "places": "8",
    "last": "8",
    "element": "u32",
    "target": "vec4<u32>",
    "fields": "  step: u32,",
    "moves": "destination[target_at] = vec4<u32>(source[source_at + parameters.step]);",
}


def declare_inputs(*arrays):
    """Return the WGSL declarations of inputs."""
    return "\n".join(
        f"@group(0) @binding({i}) var<storage, read> {array};" for i, array in enumerate(arrays)
    )


def declare_bindings(*arrays):
    """Return the WGSL declarations of inputs, and of the output after them."""
    *first, last = arrays
    output = f"@group(0) @binding({len(first)}) var<storage, read_write> {last};"
    return "\n".join([declare_inputs(*first), output])


# Files with what they need; the elementwise templates are compiled by running every such kernel.
SHADER_SUBSTITUTIONS = {
    ("attention",): {
        "bindings": declare_bindings(
            "q: array<vec4f>",
            "k: array<vec4f>",
            "v: array<vec4f>",
            "mask: array<f32>",
            "output: array<vec4f>",
        ),
        "lines": "8",
        "rows": "8",
        "keys": "8",
        "down": "1",
        "across": "1",
        "width": "8",
        "size": "9",
        "columns": "2",
        "queries_length": "256",
        "tile_length": "256",
        "values_length": "288",
        "q_vector": "q[row * WIDTH + vector]",
        "k_vector": "k[row * WIDTH + vector]",
        "v_vector": "v[row * SIZE + vector]",
        "masked": "score + mask[batch * parameters.mask_batch + rows[0] + known]",
        "store": "output[start / 4u] = value;",
    },
    ("creation",): {},
    ("image", "image_boxes", "image_forward"): {
        "bindings": declare_bindings(
            "boxes: array<f32>",
            "numbers: array<i32>",
            "images: array<f32>",
            "filling: array<f32>",
            "output: array<f32>",
        ),
        "interpolation": "bilinear",
        "more": "3",
    },
    ("image", "image_transforms", "sums", "image_gradient"): {
        "bindings": declare_bindings(
            "transforms: array<f32>", "dy: array<f32>", "sums: array<atomic<u32>>"
        ),
        "interpolation": "nearest",
        "more": "0",
        "send": "add",
    },
    ("image", "image_rotation", "image_forward"): {
        "bindings": declare_bindings(
            "rotation: array<vec2f>",
            "images: array<f32>",
            "filling: array<f32>",
            "output: array<f32>",
        ),
        "interpolation": "nearest",
        "more": "0",
    },
    ("indexing",): {"element": "u32", "word": "u32", "T": "i32"},
    ("indexing_labels",): {},
    ("indexing_places",): {"T": "i32", "depth": "3", "sizes": "3"},
    ("indexing_segments",): {"element": "vec4<f32>"},
    ("linalg_band",): {
        "element": "vec4<u32>",
        "number": "vec4<i32>",
        "lanes": "0, 1, 2, 3",
        "width": "4",
    },
    ("linalg_long",): {
        "word": "vec2u",
        "halves": "word",
        "added": "sum_i64(sum, product_u32(a, b))",
        "zero": "vec2u()",
        "lane": "",
        "rows": "2",
        "columns": "2",
        "loads": "2",
        "workgroup": "64",
        **{f"own{i}": f"{i}u" for i in range(2)},
        **{f"left{i}": f"own{i}" for i in range(2)},
    },
    ("movement",): MOVEMENT_SUBSTITUTIONS,
    ("normalization",): {
        **plain_store_substitutions(1, "f32"),
        "element": "f32",
        "largest": "v",
        "integer": "i32",
        "sum_of": "v",
        "total": "log_accurate(sum)",
        "finish": "shifted - total",
        "joined": workgroup_reduction_function("highest_of_all", "maximum(a, b)", "f32", False)
        + workgroup_reduction_function("sum_of_all", "a + b", "f32", False),
        **subgroup_size_substitutions(False),
    },
    ("normalization_response",): {
        "term": "x[k]",
        "finish": "sum",
        "bindings": declare_inputs("x: array<f32>"),
        **plain_store_substitutions(1, "f32"),
    },
    ("normalization_rows",): {
        "bindings": declare_inputs("x: array<vec4f>", "dy: array<vec4f>"),
        **plain_store_substitutions(2, "vec4f"),
        "element": "vec4f",
        "sum_of": "(v.x + v.y) + (v.z + v.w)",
        "g": "dy[at]",
        "result": "found.y * (dy[at] - found.z - h * found.w)",
        "width": "4.0",
        "turns": "3",
        "gradient_turns": "1",
        "joined": workgroup_reduction_function("sums_of_all", "a + b", "vec2f", True),
        **subgroup_size_substitutions(True),
    },
    ("reduction", "reduction_lanes"): {
        "T": "f32",
        "element": "vec4<f32>",
        **plain_store_substitutions(1, "f32"),
        "combine": "maximum(a, b)",
        "walk": "row_by_row",
        "block": "32",
        "workgroup": "64",
        "identity": "vec4<f32>(parameters.identity)",
        "combine_elements": "combine_vectors",
        "prepare": "filled_up",
        "guard": "",
        "store_total": "store(index / 64u, joined(combine_lanes(total), place, 1u));",
        "joined": workgroup_reduction_function("joined", "combine(a, b)", "f32", False),
        **subgroup_size_substitutions(False),
    },
    ("reduction", "reduction_lanes", "reduction_lines"): {
        "joined": "",
        **subgroup_size_substitutions(False),
        "T": "f32",
        "element": "array<vec4<f32>, 4>",
        **plain_store_substitutions(1, "vec4<f32>"),
        "lines": "4",
        "combine": "a + b",
        "walk": "row_by_row",
        "block": "32",
        "workgroup": "8",
        "identity": "identity_line()",
        "combine_elements": "combine_lines",
        "prepare": "whole",
        "guard": "if (index >= parameters.count) { return; }",
        "store_total": "store_line(index, total);",
        "finish": "value / parameters.divisor",
    },
    ("scatter",): {"element": "vec4<u32>"},
    ("signal",): {},
    ("sorting",): {"digits": "256"},
    ("sorting_memory", "sorting_blocks"): {"places": "1024"},
    ("sorting_memory", "sorting_select"): {"places": "1024"},
    ("reduction_position",): {
        "T": "f32",
        "is_better": "value > best",
        "bindings": "@group(0) @binding(1) var<storage, read_write> output: array<i32>;",
        "position": "i32(k)",
        "position_of_first": "i32(first)",
    },
    ("windows", "windows_cells"): WINDOW_SUBSTITUTIONS | {"axes": "3", "step": "sum += input[at];"},
    ("windows", "windows_stops"): WINDOW_SUBSTITUTIONS | {"axes": "1", "step": "sum += input[at];"},
    ("windows", "windows_weights"): WINDOW_SUBSTITUTIONS
    | {"axes": "2", "step": "sum += input[stop];"},
    ("random",): {
        "result": "vec4f",
        "made": "vec4f(pair_of_words(words[0], words[1]), pair_of_words(words[2], words[3]))",
    },
    ("resize",): {"element": "vec4<u32>", "mix": "first"},
    ("resize_gradient",): {"element": "f32"},
    ("scan",): {
        "element": "vec4<f32>",
        "item": "f32",
        "state": "vec2f",
        "join": "add_pairs(a, b, parameters.zero)",
        "lift": "vec2f(x, 0.0)",
        "lower": "total.x + total.y",
        "bindings": "@group(0) @binding(1) var<storage, read_write> output: array<vec4<f32>>;",
        "start": "vec2f(0.0)",
        "each": "total = joined(total, state_of(values.x)); output[at] = vec4f(result_of(total));",
        "last": "",
    },
    ("sums_total",): {},
    ("subgroups",): {},
    ("random_classes",): {},
}
PRODUCT_SHADERS = {
    "linalg_operands",
    "linalg_matrix",
    "convolution",
    "convolution_weights",
    *(f"linalg_{tile.schedule}" for tile in TILES_BY_NAME.values()),
}
"""The parts of the shaders of products, which test_product.py compiles by multiplying."""
ELEMENTWISE_FILES = {"elementwise", "elementwise_calls", "elementwise_store", "joined"}


def entry_points(code):
    return re.findall(r"@compute[^{]*?fn (\w+)", code)


def reachable_source(code, name):
    """Return the source of an entry point and of all functions that it calls."""
    plain = re.sub(r"//.*|^@group.*|^@compute @\w+\(\d+\)\s*", "", code, flags=re.MULTILINE)
    parts = re.split(r"^fn ", plain, flags=re.MULTILINE)[1:]
    functions = {re.match(r"\w+", part)[0]: part for part in parts}
    found = [name]
    for caller in found:
        found += [
            f for f in functions if f in re.findall(r"\w+", functions[caller]) and f not in found
        ]
    return "".join(functions[f] for f in found)


def compile_entry_points(run, code):
    """Compile each entry point with a layout up to the highest binding that it uses."""
    raw = run.device._raw
    bindings = re.findall(r"@binding\((\d)\) var<storage, (\w+)> (\w+)", code)
    for name in entry_points(code):
        words = re.findall(r"\w+", reachable_source(code, name))
        used = {int(place): access for place, access, name in bindings if name in words}
        outputs = list(used.values()).count("read_write")
        layout = BindGroupLayout(raw.device, max(used) + 1, outputs, has_table=False)
        raw.create_pipeline(code, name, name, layout.pipeline_layout)


@pytest.mark.parametrize("names", SHADER_SUBSTITUTIONS, ids="+".join)
def test_shader_templates_compile(run, names):
    compile_entry_points(run, shader(*names, **SHADER_SUBSTITUTIONS[names]))


def test_every_file_is_listed():
    listed = (
        {name for names in SHADER_SUBSTITUTIONS for name in names}
        | ELEMENTWISE_FILES
        | PRODUCT_SHADERS
    )
    found = {f.name.removesuffix(".wgsl") for f in (SHADERS_FOLDER / "templates").iterdir()}
    assert listed == {
        name for name in found if (SHADERS_FOLDER / "templates" / f"{name}.wgsl").is_file()
    }


def test_shader_snippets_compile(run):
    snippets = "".join((SHADERS_FOLDER / name).read_text() for name in SNIPPET_FILES)
    names = re.findall(r"^fn (\w+)", snippets, re.MULTILINE)
    used = linked("// " + " ".join(names))
    assert used.count("\nfn ") == len(names)
    compile_entry_points(
        run,
        "@group(0) @binding(0) var<storage, read_write> input: array<u32>;\n"
        "@compute @workgroup_size(1) fn main() { input[0] = 1u; }\n" + used,
    )


def test_a_repeated_line_is_written_out():
    assert "@repeat" not in shader("movement", **MOVEMENT_SUBSTITUTIONS)
    assert "let at7 = rest - next7 * parameters.sizes[7]" in shader(
        "movement", **MOVEMENT_SUBSTITUTIONS
    )


ELEMENTWISE_KERNELS = [
    kernel
    for name, kernel in KERNELS.items()
    if kernel.is_elementwise
    and not kernel.is_variadic
    and committed_kernel_table()[name]["webgpu"] != "–"
]


@pytest.mark.parametrize("kernel", ELEMENTWISE_KERNELS, ids=str)
def test_every_expression_compiles_for_every_dtype(run, kernel):
    attributes = {"alpha": 1, "clip_value_min": 0, "clip_value_max": 1, "dtype": float32}
    attrs = {name: attributes[name] for name in kernel.attributes}
    dtypes = [d for d in SHADER_DTYPES if is_listed(kernel.name, "webgpu", str(d))]
    assert dtypes
    for dtype in dtypes:
        for shape in ((3,), (2, 3)):  # vectors, and rows that do not hold whole vectors
            inputs = [np.ones(shape[-1:] if i else shape, dtype) for i in range(len(kernel.inputs))]
            if kernel.name == "Select":
                inputs[0] = inputs[0].astype(bool)
            run(kernel, *inputs, **attrs)


def test_importing_the_package_does_not_import_wgpu():
    code = "import sys, plugrad_webgpu; sys.exit('wgpu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
