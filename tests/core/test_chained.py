"""Ops as methods: each does what the function of its name does."""

import subprocess
import sys

import numpy as np
import pytest

import plugrad
from plugrad.ops.chained import CHAINED_OPS
from plugrad.tensor.trees import iter_tensors

IMAGES_SHAPE = (2, 4, 4, 2)
CONVOLUTION_FILTER = np.random.default_rng(1).normal(size=(2, 2, 2, 2)).astype("float32")
PADDINGS = [(0, 0), (1, 1), (1, 1), (0, 0)]
# What follows the tensor, where that is more than nothing or one tensor of its shape.
ARGUMENTS_BY_OP = {
    "avg_pool": (2, 1, "same"),
    "batch_norm": ([0.5, 1.0], [1.0, 2.0]),
    "batch_to_space_nd": ((2, 2), [(0, 0), (0, 1)]),
    "broadcast_to": ((3, *IMAGES_SHAPE),),
    "clip": (0.3, 0.6),
    "conv1d": (np.ones((3, 2, 1), "float32"),),
    "conv2d": (CONVOLUTION_FILTER,),
    "conv2d_transpose": (CONVOLUTION_FILTER, (2, 5, 5, 2)),
    "depth_to_space": (2,),
    "depthwise_conv2d": (CONVOLUTION_FILTER,),
    "dilation2d": (CONVOLUTION_FILTER[0],),
    "dot": ([1.0, 2.0, 3.0, 4.0],),
    "expand_dims": (1,),
    "local_response_normalization": (1,),
    "max_pool": (2,),
    "mirror_pad": (PADDINGS, "reflect"),
    "norm": (1, -1),
    "pad": (PADDINGS, 7),
    "permute_dims": ((3, 0, 1, 2),),
    "pool": (2, "max"),
    "prelu": ([0.1, 0.2],),
    "resize_bilinear": ((3, 5),),
    "resize_nearest_neighbor": ((3, 5),),
    "separable_conv2d": (CONVOLUTION_FILTER, np.ones((1, 1, 4, 3), "float32")),
    "slice": ((0, 1, 1, 0), (1, 2, 2, 2)),
    "space_to_batch_nd": ((2, 2), [(0, 0), (0, 0)]),
    "split": (2, 1),
    "step": (0.5,),
    "strided_slice": ((0, 0), (2, 3), (1, 2)),
    "take": ([1, 0],),
    "tile": ((1, 2, 1, 1),),
    "top_k": (1,),
    "unsorted_segment_sum": ([1, 0], 2),
}
UNARY_OPS = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh elu erf euclidean_norm exp expm1 fft flip floor ifft irfft "
    "isfinite isinf isnan leaky_relu log log1p log_sigmoid log_softmax log_sum_exp negative ones_like reciprocal relu "
    "relu6 rfft round rsqrt selu sigmoid sign sin sinh softmax softplus sqrt square squeeze tan tanh unique unstack "
    "zeros_like"
)
BINARY_OPS = (
    "add atan2 div_no_nan divide equal floor_divide greater greater_equal less less_equal logical_and logical_or "
    "logical_xor matmul maximum minimum multiply not_equal pow remainder squared_difference subtract"
)
INPUT_SHAPE_BY_OP = {
    "batch_to_space_nd": (4, 2, 2, 1),
    "conv1d": (2, 6, 2),
    "cumulative_prod": (5,),
    "cumulative_sum": (5,),
    "depth_to_space": (1, 2, 2, 4),
    "dot": (4,),
    "matmul": (3, 3),
    "take": (5,),
}
OPS_TESTED_SEPARATELY = {
    "concat",
    "logical_not",
    "one_hot",
    "stack",
    "where",
}  # have tests of their own
TESTED_OPS = sorted({*UNARY_OPS.split(), *BINARY_OPS.split(), *ARGUMENTS_BY_OP, *INPUT_SHAPE_BY_OP})


def assert_same_tensors(one, other):
    ours, theirs = list(iter_tensors(one)), list(iter_tensors(other))
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.fixture(autouse=True)
def use_cpu():
    with plugrad.use("cpu"):
        yield


def test_every_method_has_a_test():
    assert OPS_TESTED_SEPARATELY | set(TESTED_OPS) == {
        name for names in CHAINED_OPS.values() for name in names
    }


def public_op(name):
    """Return the public op of a name."""
    pages = (plugrad.fft, plugrad.image, plugrad.linalg, plugrad)
    return next(getattr(page, name) for page in pages if hasattr(page, name))


@pytest.mark.parametrize("name", TESTED_OPS)
def test_chained_method_matches_the_op(name, rng):
    shape = INPUT_SHAPE_BY_OP.get(name, IMAGES_SHAPE)
    x, y = (plugrad.asarray(rng.uniform(0.1, 2.5, shape).astype("float32")) for _ in range(2))
    if name.startswith("logical"):
        x, y = x > 1, y > 1
    rest = (y,) if name in BINARY_OPS.split() else ARGUMENTS_BY_OP.get(name, ())
    assert_same_tensors(getattr(x, name)(*rest), public_op(name)(x, *rest))


def test_methods_that_take_several_tensors(rng):
    x, y = (plugrad.asarray(rng.normal(size=(2, 3)).astype("float32")) for _ in range(2))
    assert_same_tensors(x.concat(y), plugrad.concat([x, y]))
    assert_same_tensors(x.concat([y, x], axis=1), plugrad.concat([x, y, x], axis=1))
    assert_same_tensors(x.stack(y, axis=-1), plugrad.stack([x, y], axis=-1))
    assert_same_tensors(x.stack((y, [[1.0] * 3] * 2)), plugrad.stack([x, y, plugrad.ones((2, 3))]))
    assert_same_tensors(x.where(x > 0, y), plugrad.where(x > 0, x, y))
    labels = plugrad.asarray([2, 0])
    assert_same_tensors((x > 0).logical_not(), x <= 0)
    assert_same_tensors(labels.one_hot(3, 5, -1), plugrad.one_hot(labels, 3, 5, -1))


def test_gradients_of_chained_methods_of_tensors_and_variables():
    slope = plugrad.grad(lambda x: x.square().relu().concat(x).sum())
    assert_same_tensors(slope(plugrad.asarray([3.0])), plugrad.asarray([7.0]))
    curve = plugrad.grad(lambda x: slope(x).sum())
    assert_same_tensors(curve(plugrad.asarray([3.0])), plugrad.asarray([2.0]))
    assert type(plugrad.Variable([4.0]).sqrt()) is plugrad.Tensor


def test_chained_methods_raise_the_errors_of_their_ops():
    x = plugrad.asarray([1.0])
    with pytest.raises(plugrad.errors.ShapeError, match="Concat"):
        x.concat([[[1.0]]])
    x.dispose()
    with pytest.raises(plugrad.errors.DisposedTensor):
        x.sqrt()
    with pytest.raises(plugrad.errors.DisposedTensor):
        x.fft()


def test_lazily_imported_methods_are_the_public_ops():
    code = """
import sys, plugrad
names = sorted(set(sys.modules) & {"plugrad.ops.fft", "plugrad.ops.resize"})
x = plugrad.asarray([1.0, 2.0])
assert names == [] and "fft" in dir(x), names
assert x.fft().shape == (2,)
from plugrad.ops.fft import fft, rfft
assert plugrad.Tensor.fft is fft and plugrad.Tensor.rfft is rfft and plugrad.Tensor.rfft is rfft
"""
    subprocess.run([sys.executable, "-c", code], check=True)
