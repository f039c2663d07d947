"""Lookups in compiled graphs: in a program where positions are certainly in range, and an error where one is not."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugins.comparing import assert_same_when_traced, random_tensor
from plugrad.discovery.loading import open_backend
from plugrad.extend import Call, TensorIndexError
from plugrad.kernels import indexing

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)
open_backend("cpu")


def random_indices(*shape, size=7, dtype="int64", least=0):
    values = np.random.default_rng(1).integers(least, size, size=shape)
    return plugrad.asarray(values.astype(dtype), device="cpu")


def kernels_outside_programs(function, *args):
    """Return the kernels of the steps that no program contains."""
    graph = plugrad.make_graph(function, fused=True)(*args)
    return [step.kernel.name for step in graph.steps if isinstance(step, Call)]


def label_loss(labels, logits):
    return nn.losses.sparse_softmax_cross_entropy(labels, logits)


def pick_elements(x, indices, size):
    batch = indices.ndim - 1
    found = plugrad.clip(indices, 0, size - 1)
    return indexing.gather(plugrad.exp(x), found, axis=batch, batch_dims=batch) * 2


def scatter_elements(dy, indices, shape):
    axis = len(shape) - 1
    found = plugrad.clip(indices, 0, shape[-1] - 1)
    return -indexing.gather_gradient(dy * 2, found, shape=shape, axis=axis, batch_dims=axis)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(64, 10), (1, 3), (3, 1), (5, 4, 7), (300, 60), (2, 3, 2, 5)])
def test_the_loss_of_labels_is_one_program(shape, index_dtype, dtype):
    logits = random_tensor(*shape, dtype=dtype)
    labels = random_indices(*shape[:-1], size=shape[-1], dtype=index_dtype, least=-1)

    def captured(logits):
        return plugrad.value_and_grad(lambda x: label_loss(labels, x))(logits)

    def loss_of_arguments(labels, logits):
        return plugrad.value_and_grad(lambda x: label_loss(labels, x))(logits)

    assert_same_when_traced(captured, logits)
    assert_same_when_traced(loss_of_arguments, labels, logits)
    for function, args in ((captured, (logits,)), (loss_of_arguments, (labels, logits))):
        assert {"GatherV2", "GatherV2Grad"}.isdisjoint(kernels_outside_programs(function, *args))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("inner", [(), (4,)])
def test_elements_at_positions(dtype, count, inner):
    x = random_tensor(6, 5, 7, *inner, dtype=dtype)
    indices = random_indices(6, 5, count, least=-9, size=12)
    assert_same_when_traced(
        lambda x, i: plugrad.abs(
            indexing.gather(x + x, plugrad.clip(i, 0, 6), axis=2, batch_dims=2)
        ),
        x,
        indices,
    )
    assert_same_when_traced(
        lambda x, i: plugrad.abs(
            indexing.gather(x + x, plugrad.clip(i, 0, 4), axis=1, batch_dims=0)
        ),
        x,
        indices,
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("index_dtype", ["int8", "int32", "int64"])
def test_the_gradient_adds_at_positions(index_dtype, dtype):
    indices = random_indices(6, 5, 1, dtype=index_dtype)
    assert_same_when_traced(
        lambda dy, i: scatter_elements(dy, i, (6, 5, 7)),
        random_tensor(6, 5, 1, dtype=dtype),
        indices,
    )
    twice = plugrad.concat([indices, indices], axis=-1)  # the same one again
    assert_same_when_traced(
        lambda dy, i: scatter_elements(dy, i, (6, 5, 7)), random_tensor(6, 5, 2, dtype=dtype), twice
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_numbers_are_looked_up(dtype):
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3.0], dtype)
    indices = random_indices(7, 1, size=7)
    dy = plugrad.asarray(special[:, None], device="cpu")
    assert_same_when_traced(lambda dy, i: scatter_elements(dy, i, (7, 7)), dy, indices)
    x = plugrad.asarray(np.tile(special, (7, 1)), device="cpu")
    assert_same_when_traced(lambda x, i: pick_elements(x, i, 7), x, indices)
    assert_same_when_traced(
        lambda x, i: plugrad.value_and_grad(lambda x: label_loss(i, x))(x), x, indices.reshape(7)
    )


def test_lookups_in_empty_arrays():
    assert_same_when_traced(
        lambda x, i: pick_elements(x, i, 7), random_tensor(0, 7), random_indices(0, 1)
    )
    assert_same_when_traced(
        lambda dy, i: scatter_elements(dy, i, (0, 7)), random_tensor(0, 1), random_indices(0, 1)
    )
    assert_same_when_traced(
        lambda x, i: pick_elements(x, i, 7), random_tensor(3, 7), random_indices(3, 0)
    )


@pytest.mark.parametrize("wrong", [7, -8, 2**31, -(2**40), 2**32 + 1])
def test_a_position_out_of_range_is_an_error(wrong):
    x, indices = random_tensor(5, 7), random_indices(5, 1).numpy().copy()
    indices[3] = wrong
    indices = plugrad.asarray(indices, device="cpu")

    def look_up(x, i):
        return plugrad.exp(indexing.gather(plugrad.exp(x), i, axis=1, batch_dims=1))

    def added(dy, i):
        return plugrad.exp(
            indexing.gather_gradient(plugrad.exp(dy), i, shape=(5, 7), axis=1, batch_dims=1)
        )

    for function, y in ((look_up, x), (added, x[:, :1])):
        with pytest.raises(TensorIndexError) as untraced:
            function(y, indices)
        with pytest.raises(TensorIndexError) as traced:
            plugrad.jit(function)(y, indices)
        with pytest.raises(TensorIndexError) as captured:
            plugrad.jit(lambda y, function=function: function(y, indices))(y)
        assert str(traced.value) == str(captured.value) == str(untraced.value)


def test_only_clipping_within_the_axis_proves_positions_in_range():
    x, indices = random_tensor(5, 7), random_indices(5, 1)

    def look_up_within(least, most):
        return lambda x, i: plugrad.exp(
            indexing.gather(plugrad.exp(x), plugrad.clip(i, least, most), axis=1, batch_dims=1)
        )

    assert "GatherV2" not in kernels_outside_programs(look_up_within(0, 6), x, indices)
    assert "GatherV2" in kernels_outside_programs(look_up_within(-1, 6), x, indices)
    assert "GatherV2" in kernels_outside_programs(look_up_within(0, 7), x, indices)
    assert_same_when_traced(look_up_within(-1, 6), x, indices - 3)


def test_lookups_at_positions_that_a_loop_computes():
    indices = random_indices(4, 5, 1)

    def function(x, i):
        def step(total, i):
            found = indexing.gather(total, plugrad.clip(i, 0, 6), axis=1, batch_dims=1)
            return total + found, found

        return plugrad.scan(step, x, i)

    assert_same_when_traced(function, random_tensor(5, 7), indices)
    traced = plugrad.jit(function)
    traced(random_tensor(5, 7), indices)
    wrong = plugrad.jit(
        lambda x, i: plugrad.scan(
            lambda t, i: (t, indexing.gather(t, i, axis=1, batch_dims=1)), x, i
        )
    )
    with pytest.raises(TensorIndexError):
        wrong(random_tensor(5, 7), indices + 7)


@pytest.mark.parametrize("rows", [1, 2, 9000])
def test_lookups_in_rows_divided_among_threads(rows):
    labels = random_indices(rows, size=60)
    assert_same_when_traced(
        lambda x: plugrad.value_and_grad(lambda x: label_loss(labels, x))(x),
        random_tensor(rows, 60),
    )
