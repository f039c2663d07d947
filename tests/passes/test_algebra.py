import numpy as np
import pytest

import plugrad
from passes.checking import check_pass, kernel_names, recorded_graph
from plugrad.passes.algebra import simplify_algebra
from plugrad.passes.dead import remove_dead_steps

MATRIX = plugrad.asarray(np.array([[-0.0, np.nan, np.inf], [1.0, 1e-40, -2.0]], "float32"))
SQUARE_MATRIX = plugrad.asarray(
    np.array([[-0.0, 1.0, 3.0], [1.0, -np.inf, -2.0], [0.5, 0.1, np.nan]], "float32")
)


def kernel_names_after_pass(function, *args):
    return kernel_names(check_pass(simplify_algebra, function, *args))


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: plugrad.kernels.unary.identity(x), []),
        (lambda x: plugrad.kernels.movement.reshape(x, shape=x.shape), []),
        (lambda x: plugrad.kernels.movement.transpose(x, perm=(0, 1)), []),
        (lambda x: plugrad.kernels.movement.slice(x, begin=(0, 0), size=x.shape), []),
        (lambda x: plugrad.matrix_transpose(plugrad.matrix_transpose(x)), []),
        (lambda x: x[None].reshape(1, 2, 3, 1), ["Reshape"]),
        (lambda x: plugrad.squeeze(x.reshape(1, 6)), ["Reshape"]),
        (lambda x: plugrad.squeeze(x[None]), []),
    ],
)
def test_identity_calls_are_removed(function, left):
    graph = remove_dead_steps(check_pass(simplify_algebra, function, MATRIX))
    assert kernel_names(graph) == left


def test_three_transposes_are_one():
    x = plugrad.asarray(np.arange(24.0).reshape(2, 3, 4))

    def turned(x):
        for _ in range(3):
            x = plugrad.permute_dims(x, (1, 2, 0))
        return x

    graph = check_pass(simplify_algebra, turned, x)
    assert graph.results == graph.arguments
    assert (
        kernel_names(check_pass(simplify_algebra, lambda x: turned(turned(x[:, :2])), x))[0]
        == "Slice"
    )


@pytest.mark.parametrize(
    "function", [lambda y: plugrad.negative(-y), lambda y: y * plugrad.ones_like(y)]
)
def test_a_copy_is_left_out_only_where_the_layout_is_known(function):
    """A sum over a transposed array adds in another order than one over its copy."""
    assert len(kernel_names_after_pass(lambda x: plugrad.sum(function(x)), SQUARE_MATRIX)) == len(
        kernel_names(recorded_graph(lambda x: plugrad.sum(function(x)), SQUARE_MATRIX))
    )
    graph = check_pass(simplify_algebra, lambda x: function(x @ x), SQUARE_MATRIX)
    assert graph.results == graph.steps[0].outputs


@pytest.mark.parametrize(
    ("function", "is_left_out"),
    [
        (lambda y: plugrad.ones_like(y) * y, True),
        (lambda y: y / plugrad.ones_like(y), True),
        (lambda y: y - plugrad.zeros_like(y), True),
        (lambda y: y - plugrad.full(y.shape, -0.0), False),  # of -0.0, it makes 0.0
        (lambda y: y * plugrad.broadcast_to(plugrad.full((), 1.0), y.shape), True),
        (lambda y: y + plugrad.zeros_like(y), False),  # of -0.0, it makes 0.0
        (lambda y: plugrad.zeros_like(y) - y, False),
        (lambda y: plugrad.ones_like(y) / y, False),
        (lambda y: y * plugrad.full(y.shape, -1.0), False),
        (lambda y: y - plugrad.ones_like(y), False),
        (lambda y: y[0] * plugrad.ones_like(y), False),  # the result has another shape
    ],
)
def test_arithmetic_with_neutral_numbers_is_removed(function, is_left_out):
    graph = check_pass(simplify_algebra, lambda x: function(x @ x), SQUARE_MATRIX)
    assert (graph.results == graph.steps[0].outputs) is is_left_out


def test_a_product_of_complex_numbers_with_1_is_not_removed():
    """The product of inf and 1 + 0j has a part that is NaN."""
    z = plugrad.asarray(np.array([[complex(np.inf, 1)]], "complex64"))
    assert "Multiply" in kernel_names_after_pass(lambda z: (z @ z) * plugrad.ones_like(z), z)


def test_reshapes_of_possibly_strided_views_are_not_removed():
    """The first copies a transposed array, and without it the result would be a view."""
    graph = check_pass(simplify_algebra, lambda x: x.reshape(-1).reshape(3, 2), MATRIX)
    assert kernel_names(graph) == ["Reshape", "Reshape"]
    turned = plugrad.matrix_transpose(
        plugrad.asarray(np.random.default_rng(0).normal(size=(99, 77)))
    )
    check_pass(simplify_algebra, lambda x: plugrad.sum(x.reshape(-1).reshape(x.shape)), turned)


def test_a_cast_to_its_own_dtype_is_left_out_only_of_packed_arrays():
    cast = plugrad.kernels.unary.cast
    assert kernel_names_after_pass(lambda x: cast(x, dtype=x.dtype), MATRIX) == ["Cast"]
    assert kernel_names_after_pass(lambda y: cast(y @ y, dtype=y.dtype), SQUARE_MATRIX) == [
        "BatchMatMul"
    ]
    assert kernel_names_after_pass(lambda y: cast(y @ y, dtype=plugrad.float64), SQUARE_MATRIX) == [
        "BatchMatMul",
        "Cast",
    ]


def test_parts_of_complex_numbers_are_not_packed():
    """Real gives a view with gaps, whose copy lies otherwise."""
    z = plugrad.asarray(np.ones((2, 2), "complex64"))
    assert "Neg" in kernel_names_after_pass(lambda z: plugrad.negative(-plugrad.real(z @ z)), z)


def test_variable_may_be_assigned_the_result_of_an_identity():
    v = plugrad.Variable(plugrad.ones((2, 2)))

    def step():
        v.assign(plugrad.negative(-(v @ v)))

    graph = check_pass(simplify_algebra, step)
    assert graph.updates[0][1] == graph.steps[0].outputs[0]
