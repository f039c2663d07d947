"""Products that C adds to a sum in place, and factors that it transposes once for a loop: the bits stay the same."""

import pytest

import plugrad
from plugins.comparing import assert_same_when_traced, random_tensor
from plugrad.discovery.loading import open_backend
from plugrad.extend import Call, Fused, Scan

selection = pytest.importorskip("plugrad_native.programs.selection")
open_backend("cpu")

from plugrad_native.declare import FLOAT32_LANES  # noqa: E402 - it needs the extension

needs_avx512 = pytest.mark.skipif(
    FLOAT32_LANES < 16,
    reason="without AVX-512, BLAS computes the products, which does not add to others",
)
X, Y, W, U = (
    random_tensor(32, 64),
    random_tensor(32, 64, seed=1),
    random_tensor(64, 96, seed=2),
    random_tensor(64, 96, seed=3),
)
MATRIX_SEQUENCE = random_tensor(3, 32, 64, seed=4)
ACCUMULATOR = random_tensor(64, 96, seed=5)
TALL_MATRIX = random_tensor(32, 96, seed=6)


def prepare_graph(function, *args):
    """Return the graph of a function as C runs it."""
    graph = plugrad.make_graph(function)(*args)
    return selection.CompiledStepSelector(graph).prepare(graph)


def kernel_names(graph):
    return [step.kernel.name for step in graph.steps if isinstance(step, Call)]


def loop_kernels(function, *args):
    """Return the kernels before and in the loop of a function."""
    graph = prepare_graph(function, *args)
    (loop,) = [step for step in graph.steps if isinstance(step, Scan)]
    return kernel_names(graph), kernel_names(loop.body)


@needs_avx512
def test_the_second_product_is_added_to_the_first():
    def layer(x, y, w, u):
        return x @ w + y @ u

    assert kernel_names(prepare_graph(layer, X, Y, W, U)) == ["BatchMatMul", "_FusedMatMul"]
    assert_same_when_traced(layer, X, Y, W, U)
    assert_same_when_traced(
        lambda *given: plugrad.tanh(layer(*given) + layer(*given[::-1][2:], *given[2:])), X, Y, W, U
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, w, u: (x @ w + y @ u, x @ w),
        lambda x, y, w, u: (lambda p: (p + y @ u) * p)(x @ w),
        lambda x, y, w, u: (lambda p: p + p @ (w.T @ u))(x @ w),
        lambda x, y, w, u: x @ w + x @ w,
        lambda x, y, w, u: plugrad.sum(x @ w + y @ u, axis=0) + (x @ w)[0],
        lambda x, y, w, u: (x @ w).reshape(-1)[:32] + (x @ w + y @ u)[:, 0],
        lambda x, y, w, u: ((x @ w + y @ u) @ u.T + x) @ w + y @ u,
    ],
)
def test_product_that_other_operations_read_keeps_its_value(function):
    assert_same_when_traced(function, X, Y, W, U)


def test_a_long_sum_is_not_added_in_parts():
    x, w = random_tensor(32, 400), random_tensor(400, 96, seed=1)
    assert_same_when_traced(lambda x, w, y, u: x @ w + y @ u + x @ w * 2, x, w, Y, U)
    assert_same_when_traced(
        lambda total, x, w: plugrad.scan(lambda c, _: (c + x @ w, None), total, length=3)[0],
        TALL_MATRIX,
        x,
        w,
    )


def add_products(total, x):
    return total + plugrad.matmul(x, TALL_MATRIX, transpose_a=True), None


@needs_avx512
def test_a_loop_adds_products_to_its_carry():
    def run(total, xs):
        return plugrad.scan(add_products, total, xs)[0]

    assert loop_kernels(run, ACCUMULATOR, MATRIX_SEQUENCE)[1] == ["_FusedMatMul"]
    assert_same_when_traced(run, ACCUMULATOR, MATRIX_SEQUENCE)


def multiply_by_tall(x):
    return plugrad.matmul(x, TALL_MATRIX, transpose_a=True)


@pytest.mark.parametrize(
    "body",
    [
        lambda c, x: ((c[0] + multiply_by_tall(x), c[1]), c[0]),
        lambda c, x: (lambda y: ((y, c[1]), y))(c[0] + multiply_by_tall(x)),
        lambda c, x: ((c[1] + multiply_by_tall(x), c[0] + multiply_by_tall(x * 2)), None),
        lambda c, x: ((c[0] + multiply_by_tall(x), c[0] * 2), None),
        lambda c, x: (lambda y: ((y, y), None))(c[0] + multiply_by_tall(x)),
        lambda c, x: ((c[0] + multiply_by_tall(x), c[1] + c[0]), c[1]),
        lambda c, x: (
            (c[0] + X.T @ TALL_MATRIX + multiply_by_tall(x), c[1] - multiply_by_tall(x)),
            None,
        ),
    ],
)
def test_carry_that_is_read_later_is_not_overwritten(body):
    def run(a, b, xs):
        return plugrad.scan(body, (a, b), xs)

    assert_same_when_traced(run, ACCUMULATOR, ACCUMULATOR * 3, MATRIX_SEQUENCE)


def test_products_are_accumulated_in_while_loops_and_conditionals():
    def run(total, x):
        def body(carry):
            return carry[0] + multiply_by_tall(x), carry[1] + 1

        start = total, plugrad.asarray(0, dtype="int32")
        (total, _) = plugrad.while_loop(lambda c: c[1] < 3, body, start)
        return plugrad.cond(
            total[0, 0] > 0,
            lambda t: t + multiply_by_tall(x),
            lambda t: t - multiply_by_tall(x),
            total,
        )

    assert_same_when_traced(run, ACCUMULATOR, X)


@needs_avx512
def test_a_factor_is_transposed_once_for_a_loop():
    def run(x, w):
        def body(x, _):
            return plugrad.matmul(plugrad.tanh(x), w, transpose_b=True), None

        return plugrad.scan(body, x, length=3)[0]

    w = random_tensor(64, 64, seed=7)
    before, inside = loop_kernels(run, random_tensor(32, 64), w)
    assert (before, inside) == (["Transpose"], ["BatchMatMul"])
    assert_same_when_traced(run, random_tensor(32, 64), w)
    assert_same_when_traced(
        plugrad.grads(lambda *given: plugrad.sum(run(*given))), random_tensor(32, 64), w
    )


def test_a_recurrent_layer_has_the_bits_of_an_untraced_one():
    def loss(w, u, xs):
        def body(h, x):
            h = plugrad.tanh(x @ w + h @ u)
            return h, h

        last, hs = plugrad.scan(body, X, xs)
        return plugrad.sum(hs * hs) + plugrad.sum(last)

    square = random_tensor(64, 64, seed=8)
    assert_same_when_traced(plugrad.grads(loss), square, square * 0.5, MATRIX_SEQUENCE)
    graph = plugrad.make_graph(plugrad.grads(loss), fused=True)(square, square, MATRIX_SEQUENCE)
    assert not any(isinstance(step, Scan) for step in graph.steps)
    assert any(isinstance(step, Fused) for step in graph.steps)
