"""The tape: what it records, which tensors it saves, and when it frees them."""

import gc
import threading
import weakref

import numpy as np
import pytest

import plugrad
from plugrad import KernelConfig
from plugrad.errors import GradientNotFound, ShapeError
from plugrad.extend import Shaped, Spec, kernel
from plugrad.tape.nodes import Node, count_live_leaves

tensor = plugrad.asarray


def count_tape_nodes():
    """Return the number of live tape nodes."""
    gc.collect()
    return sum(isinstance(x, Node) for x in gc.get_objects())


@pytest.fixture
def call_during_backward():
    """A function that returns an identity op; its gradient calls a given function."""

    def make(during_backward):
        @plugrad.custom_grad
        def probed(x, save):
            def gradient(dy, saved):
                during_backward()
                return dy

            return x, gradient

        return probed

    return make


# --- what is recorded -----------------------------------------------------------------------------


def test_calls_are_not_recorded_without_differentiation():
    before = count_tape_nodes()
    x = plugrad.asarray([1.0, 2.0])
    results = [x * x, plugrad.exp(x) + 1, *plugrad.split(x, 2), x[0], plugrad.concat([x, x])]
    assert [y.node for y in results] == [None] * len(results)
    assert count_tape_nodes() == before


def test_constants_inside_a_differentiated_function_are_not_recorded():
    seen = {}

    def f(x):
        seen["constant"] = plugrad.exp(plugrad.ones(3))
        seen["recorded"] = plugrad.exp(x)
        return plugrad.sum(seen["recorded"] * seen["constant"])

    plugrad.grad(f)(tensor([1.0, 2.0, 3.0]))
    assert seen["constant"].node is None
    assert seen["recorded"].node is not None


def test_kernels_that_are_not_differentiable_end_the_tape():
    plugrad.grad(lambda x: (assert_unrecorded(plugrad.floor(x)), x * 2)[1])(1.5)
    plugrad.grad(lambda x: (assert_unrecorded(x > 0), x * 2)[1])(1.5)


def assert_unrecorded(y):
    assert y.node is None


def test_kernels_called_by_a_kernel_are_not_recorded():
    """An implementation that calls ops is still recorded as one step."""

    def doubled(x):
        return (plugrad.asarray(x) + plugrad.asarray(x)).numpy()

    plugrad.register_kernel(KernelConfig("Doubled", "cpu", doubled))
    plugrad.register_gradient(
        plugrad.GradientConfig("Doubled", lambda dy, saved, attrs: {"x": dy * 2})
    )
    f = lambda x: plugrad.sum(plugrad.run_kernel("Doubled", {"x": x}))  # noqa: E731
    assert plugrad.grad(f)(tensor([1.0, 2.0])).tolist() == [2.0, 2.0]


# --- several outputs ------------------------------------------------------------------------------


def test_unused_outputs_get_zero_gradients():
    def f(x):
        first, _, last = plugrad.split(x, [1, 2, 1])
        return plugrad.sum(first * 3) + plugrad.sum(last * last)

    assert plugrad.grad(f)(tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [3.0, 0.0, 0.0, 8.0]


def test_output_that_is_used_twice_gets_the_sum_of_its_gradients():
    def f(x):
        a, b = plugrad.unstack(x)
        return plugrad.sum(a * a + a * b)

    assert plugrad.grad(f)(tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[5.0, 8.0], [1.0, 2.0]]


def test_one_of_several_outputs_is_differentiated():
    x = tensor([[1.0, 2.0]])
    assert plugrad.grad(lambda x: plugrad.sum(plugrad.unstack(x)[0] * 2))(x).tolist() == [
        [2.0, 2.0]
    ]
    assert plugrad.grad(lambda x: plugrad.sum(plugrad.split(x, 1)[0] * 2))(x).tolist() == [
        [2.0, 2.0]
    ]


def test_kernel_with_several_outputs_hands_over_all_gradients():
    @kernel("MinimumAndMaximum", family="tests")
    def minimum_and_maximum(a: Spec, b: Spec) -> tuple[Spec, ...]:
        return Shaped(a.shape, a.dtype), Shaped(a.shape, a.dtype)

    plugrad.register_kernel(
        KernelConfig("MinimumAndMaximum", "cpu", lambda a, b: (np.minimum(a, b), np.maximum(a, b)))
    )

    def share(dy, a, b, mine, other):
        is_smaller = plugrad.less(mine, other)
        return plugrad.where(is_smaller, dy[0], dy[1])

    plugrad.register_gradient(
        minimum_and_maximum,
        a=lambda dy, a, b: share(dy, a, b, a, b),
        b=lambda dy, a, b: share(dy, a, b, b, a),
    )

    def f(a, b):
        low, high = minimum_and_maximum(a, b)
        return plugrad.sum(low + 10 * high)

    a, b = plugrad.asarray([1.0, 5.0]), plugrad.asarray([2.0, 3.0])
    da, db = plugrad.grad(f, (0, 1))(a, b)
    assert (da.tolist(), db.tolist()) == ([1.0, 10.0], [10.0, 1.0])
    only_high = plugrad.grad(lambda a: plugrad.sum(minimum_and_maximum(a, b)[1]))
    assert only_high(a).tolist() == [0.0, 1.0]


# --- broadcasting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1), (1, 3), (2, 3), (1, 1, 1), (4, 2, 3)])
def test_gradient_is_summed_to_its_inputs_shape(shape):
    other = plugrad.ones((2, 3)) * 2
    x = plugrad.ones(shape)
    for f in (lambda x: x * other, lambda x: other * x, lambda x: other - x):
        assert plugrad.grad(f)(x, dy=plugrad.ones_like(f(x))).shape == shape
    total = plugrad.sum(plugrad.grad(lambda x: plugrad.sum(x * other))(x)).item()
    assert total == 2 * max(6, x.size)


def test_rule_whose_gradient_does_not_fit_is_named():
    @kernel("Misfit", family="tests")
    def misfit(x: Spec) -> Spec:
        return x

    plugrad.register_kernel(KernelConfig("Misfit", "cpu", lambda x: x))
    plugrad.register_gradient(misfit, x=lambda dy: plugrad.concat([dy, dy]))
    with pytest.raises(
        ShapeError, match=r"gradient of Misfit for input 'x' has shape \(4,\); .*\(2,\)"
    ):
        plugrad.grad(misfit)(plugrad.ones(2), dy=plugrad.ones(2))


# --- memory ---------------------------------------------------------------------------------------


def test_saved_arrays_are_freed_during_the_backward_pass(call_during_backward):
    arrays, alive = [], []

    def remember(y):
        arrays.append(weakref.ref(y.array))
        return y

    @call_during_backward
    def first_step():
        alive.append([reference() is not None for reference in arrays])

    def f(x):
        y = first_step(x)
        for _ in range(3):
            y = remember(plugrad.exp(y))
        return plugrad.sum(y)

    plugrad.grad(f)(plugrad.asarray([0.1, 0.2]))
    assert alive == [[False, False, False]]


def test_nodes_are_freed_during_the_backward_pass(call_during_backward):
    counts = []
    last, first = (
        call_during_backward(lambda: counts.append(count_tape_nodes())),
        call_during_backward(lambda: counts.append(count_tape_nodes())),
    )

    def f(x):
        y = first(x)
        for _ in range(10):
            y = plugrad.sin(y)
        return last(y)

    plugrad.grad(f)(0.5)
    assert counts[0] - counts[1] >= 9


def test_no_nodes_remain_after_a_gradient():
    before = count_tape_nodes()
    f = plugrad.value_and_grad(lambda x: plugrad.sum(plugrad.exp(x) * x))
    value, gradient = f(tensor([1.0, 2.0]))
    second = plugrad.grad(plugrad.grad(lambda x: plugrad.exp(x) * x))(1.0)
    assert count_tape_nodes() == before
    assert (value.node, gradient.node, second.node) == (None, None, None)


def test_no_reference_cycles_are_made():
    def f(x):
        a, b = plugrad.split(plugrad.exp(x), 2)
        return plugrad.sum(a * b + plugrad.tanh(a))

    w = plugrad.Variable([1.0, 2.0])

    def work():
        plugrad.grad(f)(plugrad.asarray([1.0, 2.0, 3.0, 4.0]))
        plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x) ** 2))(plugrad.ones(4))
        plugrad.variable_grads(lambda: plugrad.sum(w * w), [w])
        plugrad.vjp(lambda x: x * x, plugrad.ones(2))[1](plugrad.ones(2))

    work()
    gc.collect()
    gc.disable()
    try:
        work()
        garbage = gc.collect()
    finally:
        gc.enable()
    assert garbage == 0


@pytest.mark.parametrize("when", ["forward", "backward"])
def test_no_nodes_remain_after_an_error(call_during_backward, when):
    def fail():
        raise ArithmeticError(when)

    passes = call_during_backward(fail if when == "backward" else lambda: None)

    def f(x):
        y = plugrad.exp(passes(plugrad.exp(x)))
        if when == "forward":
            fail()
        return y

    before = count_tape_nodes()
    with pytest.raises(ArithmeticError, match=when) as caught:
        plugrad.grad(f)(0.1)
    caught.value.__traceback__ = None
    del caught
    assert count_tape_nodes() == before
    assert plugrad.grad(lambda x: x * x)(3.0).item() == 6.0
    assert (plugrad.asarray(1.0) + 1).node is None


def test_tape_is_freed_with_its_tensors():
    seen = []
    before = count_tape_nodes()
    plugrad.grad(lambda x: (seen.append(plugrad.exp(x)), x)[1])(1.0)
    assert count_tape_nodes() > before  # somebody kept an inner tensor
    seen.clear()
    assert count_tape_nodes() == before


def test_long_chains_need_no_recursion():
    def f(x):
        for _ in range(3000):
            x = x * 1.0
        return x

    assert plugrad.grad(f)(2.0).item() == 1.0


# --- missing gradients ----------------------------------------------------------------------------


@pytest.fixture
def opaque_kernel():
    @kernel("Opaque", family="tests")
    def opaque(x: Spec) -> Spec:
        return x

    plugrad.register_kernel(KernelConfig("Opaque", "cpu", lambda x: x + 1))
    return opaque


def test_missing_gradient_names_the_kernel_and_the_remedy(opaque_kernel):
    with pytest.raises(
        GradientNotFound, match=r"kernel 'Opaque' lies between .*; declare one with reg"
    ):
        plugrad.grad(opaque_kernel)(1.0)


def test_missing_gradient_of_an_unrelated_kernel_does_not_matter(opaque_kernel):
    assert plugrad.grad(lambda x: (opaque_kernel(x), x * 3)[1])(1.0).item() == 3.0
    assert plugrad.grad(lambda x: x * opaque_kernel(plugrad.stop_gradient(x)))(1.0).item() == 2.0
    assert plugrad.grad(lambda x: x * opaque_kernel(plugrad.ones(())))(1.0).item() == 2.0


# --- threads --------------------------------------------------------------------------------------


def test_threads_do_not_share_a_tape():
    results, barrier = {}, threading.Barrier(4)

    def work(n):
        def f(x):
            barrier.wait(timeout=10)
            for _ in range(50):
                x = x * 1.0
            barrier.wait(timeout=10)
            return x**n

        results[n] = plugrad.grad(f)(2.0).item()

    run_in_threads(work, range(1, 5))
    assert results == {n: float(n * 2 ** (n - 1)) for n in range(1, 5)}


def test_threads_differentiate_a_shared_variable_independently():
    w = plugrad.Variable(3.0)
    results, barrier = {}, threading.Barrier(4)

    def work(n):
        def f():
            barrier.wait(timeout=10)
            return w**n

        results[n] = plugrad.variable_grads(f, [w])[1][0].item()

    run_in_threads(work, range(1, 5))
    assert results == {n: float(n * 3 ** (n - 1)) for n in range(1, 5)}


def run_in_threads(work, arguments):
    threads = [threading.Thread(target=work, args=(n,)) for n in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)


def test_rules_may_look_at_several_outputs_and_be_differentiated_again():
    """The gradient of an output adds up over its uses, by the caller and by a rule that saved it."""
    pair = plugrad.extend.kernel("Pair", family="example")(lambda x: (x, x))
    plugrad.extend.gradient(pair, x=lambda dy, outs: dy[0] * outs[0] * 2 + dy[1])
    plugrad.register_kernel(plugrad.KernelConfig("Pair", "cpu", lambda x: [x * x, x * 1]))
    try:
        with plugrad.use("cpu"):

            def f(x):
                square, same = pair(x)
                return square * same

            # the rule is wrong on purpose: it says the square's slope is 2 x², so f' = 2 x³ + x²
            first = plugrad.grad(f)
            assert first(2.0).item() == 2 * 2**2 * 2 + 2**2
            # f' is 2 * square * same + square; the square's slope is 2 * square again
            assert plugrad.grad(first)(2.0).item() == (2 * 2 + 1) * 2 * 4 + 2 * 4
    finally:
        plugrad.unregister_kernel("Pair", "cpu")
        plugrad.unregister_gradient("Pair")
        del plugrad.extend.KERNELS["Pair"]


def test_the_value_of_vjp_is_recorded_as_long_as_an_outer_derivative_needs_it():
    gc.collect()
    before = count_live_leaves()

    def outer(y):
        value, pull = plugrad.vjp(lambda x: x * y, tensor([2.0, 3.0]))
        (slope,) = pull(tensor([1.0, 1.0]))
        return plugrad.sum(value * slope * value)  # y² x · x y

    gradient = plugrad.grad(outer)(tensor([1.0, 2.0]))
    np.testing.assert_allclose(gradient.numpy(), [3 * 4 * 1, 3 * 9 * 4])
    assert count_live_leaves() == before
    value, pull = plugrad.vjp(lambda x: (x * x, x + 1), tensor([1.0]))
    assert value[0].node is value[1].node is None
    assert count_live_leaves() == before + 1  # that of `pull`
    kept = []
    plugrad.vjp(lambda x: (kept.append(x * 2), x)[1], tensor([1.0]))
    value, pull = plugrad.vjp(lambda x: x * kept[0], tensor([1.0]))
    assert value.node is not None
    del value, pull
    kept.clear()
    assert count_live_leaves() == before


USUAL_THRESHOLDS, RECORDING_THRESHOLDS = (700, 10, 10), (700, 10, 1001)


@pytest.fixture
def gc_thresholds():
    """Return a function that returns the garbage collector's thresholds, which start as Python's defaults."""
    before = gc.get_threshold()
    gc.set_threshold(*USUAL_THRESHOLDS)
    yield gc.get_threshold
    gc.set_threshold(*before)


def many_ops(x):
    """A function of 9,000 ops, more than the 8,192 between two checks."""
    for _ in range(9000):
        x = x + 1
    return plugrad.sum(x * x)


def test_full_collections_are_rare_while_a_long_function_is_recorded(gc_thresholds):
    found = []

    def function(x):
        found.append(gc_thresholds())
        y = many_ops(x)
        found.append(gc_thresholds())
        plugrad.grad(lambda x: plugrad.sum(x * x))(x)
        found.append(gc_thresholds())  # an inner gradient does not end it
        return y

    plugrad.grad(function)(plugrad.ones(3))
    assert found == [USUAL_THRESHOLDS, RECORDING_THRESHOLDS, RECORDING_THRESHOLDS]
    assert gc_thresholds() == USUAL_THRESHOLDS
    _, pull = plugrad.vjp(function, plugrad.ones(3))
    assert gc_thresholds() == USUAL_THRESHOLDS
    pull(plugrad.asarray(1.0))
    plugrad.variable_grads(lambda: function(v), [v := plugrad.Variable(plugrad.ones(3))])
    assert found == [USUAL_THRESHOLDS, RECORDING_THRESHOLDS, RECORDING_THRESHOLDS] * 3
    assert gc_thresholds() == USUAL_THRESHOLDS


def test_a_checkpoint_recomputed_in_the_backward_pass_keeps_the_thresholds(gc_thresholds):
    found = []

    def function(x):
        y = many_ops(x)
        found.append(gc_thresholds())
        return y

    _, pull = plugrad.vjp(plugrad.checkpoint(function), plugrad.ones(3))
    pull(plugrad.asarray(1.0))
    assert found == [USUAL_THRESHOLDS, RECORDING_THRESHOLDS]
    assert gc_thresholds() == USUAL_THRESHOLDS


def test_thresholds_are_restored_after_an_error(gc_thresholds):
    def function(x):
        many_ops(x)
        assert gc_thresholds() == RECORDING_THRESHOLDS
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        plugrad.grad(function)(plugrad.ones(3))
    assert gc_thresholds() == USUAL_THRESHOLDS
    with pytest.raises(ZeroDivisionError):
        plugrad.vjp(function, plugrad.ones(3))
    assert gc_thresholds() == USUAL_THRESHOLDS


def test_thresholds_that_the_program_sets_are_kept(gc_thresholds):
    def function(x):
        y = many_ops(x)
        gc.set_threshold(500, 5, 5)
        return y

    plugrad.grad(function)(plugrad.ones(3))
    assert gc_thresholds() == (500, 5, 5)


def test_garbage_collection_thresholds_are_restored_after_the_last_thread(gc_thresholds):
    started, ended = threading.Event(), threading.Event()

    def slow(x):
        y = many_ops(x)
        started.set()
        assert ended.wait(30)
        return y

    thread = threading.Thread(target=plugrad.grad(slow), args=[plugrad.ones(3)])
    thread.start()
    assert started.wait(30)
    plugrad.grad(lambda x: plugrad.sum(x * x))(plugrad.ones(3))
    assert gc_thresholds() == RECORDING_THRESHOLDS
    ended.set()
    thread.join()
    assert gc_thresholds() == USUAL_THRESHOLDS
