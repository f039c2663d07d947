"""Single operators in cases that the package onnx does not test; onnxruntime computes the same values."""

import numpy as np
import onnx
import pytest

import plugrad_onnx


def run_operator(name, *inputs, opset=20, **attributes):
    """Return the output of an operator for NumPy arrays."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = onnx.helper.make_node(name, names, ["y"], **attributes)
    values = [
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
        )
        for n, x in zip(names, inputs, strict=True)
    ]
    graph = onnx.helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name="y")])
    opsets = [onnx.helper.make_opsetid("", opset)]
    return plugrad_onnx.load(onnx.helper.make_model(graph, opset_imports=opsets))(*inputs).numpy()


def float_range(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [(-6, -5, -1, [0]), (-6, -9, -2, [0]), (1, -9, -1, [1, 0]), (5, 0, -1, [1]), (0, 1, -1, [])],
)
def test_bounds_of_a_slice_are_clamped_to_elements(start, end, step, expected):
    bounds = [np.array([n]) for n in (start, end, 0, step)]
    assert run_operator("Slice", float_range(2), *bounds).tolist() == expected


@pytest.mark.parametrize(
    ("auto_pad", "expected"),
    [("NOTSET", [1, 3, 2, 0]), ("SAME_LOWER", [1, 3, 2, 0]), ("SAME_UPPER", [0, 1, 3, 2])],
)
@pytest.mark.parametrize("opset", [9, 20])
def test_output_shape_of_a_transposed_convolution_crops_more_at_the_beginning(
    auto_pad, expected, opset
):
    """It does so unless `auto_pad` says that the end has more."""
    found = run_operator(
        "ConvTranspose",
        float_range(1, 1, 3),
        np.float32([[[1, 1, 0]]]),
        opset=opset,
        output_shape=[4],
        auto_pad=auto_pad,
    )
    assert found[0, 0].tolist() == expected


@pytest.mark.parametrize("name", ["ReduceL2", "ReduceLogSum", "ReduceLogSumExp"])
def test_reductions_of_integers_give_integers(name):
    found = run_operator(name, np.int32([3, 4]), keepdims=0)
    assert (found.dtype, found) == (np.int32, {"ReduceL2": 5, "ReduceLogSum": 1}.get(name, 4))


def test_regions_are_rounded_away_from_zero():
    x = float_range(1, 1, 6, 6)
    regions = np.float32([[0, 1, 1, 5, 5]])  # times 0.5, from 1 to 3
    found = run_operator("MaxRoiPool", x, regions, pooled_shape=[1, 1], spatial_scale=0.5)
    assert found.ravel() == x[0, 0, 3, 3]
    assert run_operator("MaxRoiPool", x, regions[:0], pooled_shape=[1, 2]).shape == (0, 1, 1, 2)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("region", [[1, 1, 1, 1], [3, 3, 1, 1]])
def test_a_region_without_extent_gives_zeros(mode, region):
    x = 1 + float_range(1, 1, 6, 6)
    options = {"mode": mode, "output_height": 2, "output_width": 2}
    found = run_operator("RoiAlign", x, np.float32([region]), np.zeros(1, np.int64), **options)
    np.testing.assert_array_equal(found, np.zeros((1, 1, 2, 2)))
