"""Lifetime: tidy blocks, keep, dispose, counting and limits."""

import gc
import sys
from threading import Event, Thread

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, DisposedTensor, OutOfMemory

LARGE_SIZE = 100_000  # elements; the cpu backend counts buffers from 128 KiB


@pytest.fixture
def x():
    return plugrad.asarray([1.0, 2.0])


# --- tidy -----------------------------------------------------------------------------------------


def test_tidy_block_disposes_tensors_created_inside(x):
    with plugrad.tidy():
        y = x * 2
        z = plugrad.exp(y)
        made = plugrad.zeros(3)
    assert (y.is_disposed, z.is_disposed, made.is_disposed, x.is_disposed) == (
        True,
        True,
        True,
        False,
    )


def test_tidy_block_keeps_requested_tensors(x):
    with plugrad.tidy() as scope:
        y = scope.keep(x * 2)
        parts = scope.keep({"a": [x + 1, (x + 2,)], "n": 3})
        lost = x + 3
    assert y.tolist() == [2.0, 4.0]
    assert parts["a"][1][0].tolist() == [3.0, 4.0]
    assert lost.is_disposed


def test_keep_requires_an_open_tidy_block(x):
    scope = plugrad.tidy()
    for _ in range(2):
        with pytest.raises(
            ArgumentError, match="keep works only inside the block, and the block is not open"
        ):
            scope.keep(x)
        with scope:
            pass


def test_decorator_keeps_the_result(x):
    inside = []

    @plugrad.tidy()
    def f(x, *, factor):
        """Scale."""
        y = x * factor
        inside.append(y)
        return [y + 1, {"more": y + 2}]

    first, second = f(x, factor=3.0)
    assert (first.tolist(), second["more"].tolist()) == ([4.0, 7.0], [5.0, 8.0])
    assert inside[0].is_disposed
    assert (f.__name__, f.__doc__) == ("f", "Scale.")


def test_decorated_function_may_be_recursive(x):
    @plugrad.tidy()
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * 2.0

    assert power(x, 4).tolist() == [16.0, 32.0]


def test_decorated_function_may_return_its_argument(x):
    assert plugrad.tidy()(lambda x: x)(x) is x
    assert not x.is_disposed


def test_results_of_an_inner_block_belong_to_the_outer_one(x):
    with plugrad.tidy():
        with plugrad.tidy() as inner:
            y = inner.keep(x * 2)
        assert y.tolist() == [2.0, 4.0]
        z = y + 1
    assert (y.is_disposed, z.is_disposed) == (True, True)


def test_tidy_block_that_raises_disposes_its_tensors_and_propagates_the_error(x):
    inside = []

    def fail():
        inside.append(x * 2)
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"), plugrad.tidy():
        fail()
    assert inside[0].is_disposed
    made = x * 3  # nobody tracks any more
    assert not made.is_disposed


def test_keep_survives_every_block(x):
    with plugrad.tidy(), plugrad.tidy():
        y = plugrad.keep(x * 2)
        z = x * 3
    assert y.tolist() == [2.0, 4.0]
    assert z.is_disposed
    assert plugrad.keep([y, 3])[0] is y


def test_variables_survive_tidy_blocks(x):
    with plugrad.tidy():
        w = plugrad.Variable(x * 2)
        w.assign(w + 1)
        initial = x + 1
        v = plugrad.Variable(initial)
    assert (w.tolist(), v.tolist()) == ([3.0, 5.0], [2.0, 3.0])
    assert initial.is_disposed


def test_gradients_in_a_block_are_disposed_too(x):
    before = plugrad.memory().tensors
    with plugrad.tidy() as scope:
        value, gradient = plugrad.value_and_grad(lambda x: plugrad.sum(plugrad.exp(x) * x))(x)
        other = plugrad.grad(lambda x: plugrad.sum(plugrad.exp(x)))(x)
        scope.keep(gradient)
    assert (value.is_disposed, other.is_disposed, gradient.is_disposed) == (True, True, False)
    assert plugrad.memory().tensors == before + 1


def test_tidy_inside_a_differentiated_function(x):
    @plugrad.tidy()
    def f(x):
        y = plugrad.exp(x)
        return plugrad.sum(y * y)

    assert plugrad.grad(f)(x).numpy() == pytest.approx(2 * np.exp([2.0, 4.0]), rel=1e-6)


# --- dispose --------------------------------------------------------------------------------------


def test_use_of_a_disposed_tensor_raises_an_error(x):
    y = x * 2
    y.dispose()
    assert y.is_disposed
    assert repr(y) == "tensor(<disposed>)"
    for use in (
        lambda: y.numpy(),
        lambda: y.shape,
        lambda: y + 1,
        lambda: y.tolist(),
        lambda: y[0],
        lambda: y.device,
    ):
        with pytest.raises(
            DisposedTensor, match="has been disposed; return it from its tidy block, or"
        ):
            use()


def test_disposing_twice_is_harmless(x):
    y = {"a": [x * 2], "b": 3}
    plugrad.dispose(y)
    plugrad.dispose(y)
    y["a"][0].dispose()
    assert y["a"][0].is_disposed


def test_disposing_a_tensor_keeps_others_that_share_its_buffer(x):
    y = x.reshape(2, 1)
    x.dispose()
    assert y.tolist() == [[1.0], [2.0]]


def test_numpy_array_outlives_its_disposed_tensor(x):
    y = x * 2
    values = y.numpy()
    y.dispose()
    assert values.tolist() == [2.0, 4.0]


# --- counting -------------------------------------------------------------------------------------


def test_tensors_are_counted_while_they_live():
    before = plugrad.memory().tensors
    x = plugrad.zeros(3)
    y = x + 1
    assert plugrad.memory().tensors == before + 2
    y.dispose()
    assert plugrad.memory().tensors == before + 1
    del x
    assert plugrad.memory().tensors == before


def test_bytes_and_buffers_are_counted_until_they_are_freed():
    gc.collect()
    before = plugrad.memory()
    x = plugrad.zeros(LARGE_SIZE)
    y = x + 1
    during = plugrad.memory()
    assert (during.bytes - before.bytes, during.buffers - before.buffers) == (8 * LARGE_SIZE, 2)
    assert during.peak >= during.bytes
    assert during.bytes == sum(m.bytes for m in during.backends.values())
    assert during.backends["cpu:0"].bytes >= 8 * LARGE_SIZE
    x.dispose()
    del y
    after = plugrad.memory()
    assert (after.bytes, after.buffers) == (before.bytes, before.buffers)
    assert after.peak >= during.bytes


def test_results_of_an_override_are_counted():
    def copied(x, *, shape):
        return x.reshape(shape).copy()

    with plugrad.use("cpu"), plugrad.override_kernel("Reshape", "cpu", copied):
        x = plugrad.zeros(LARGE_SIZE)
        before = plugrad.memory().bytes
        y = plugrad.reshape(x, (2, -1))
        assert plugrad.memory().bytes - before == 4 * y.size


def test_shared_buffers_are_counted_once():
    before = plugrad.memory().bytes
    x = plugrad.zeros(LARGE_SIZE)
    views = [x.reshape(2, -1), x[10:], plugrad.flip(x), plugrad.broadcast_to(x, (5, LARGE_SIZE))]
    assert plugrad.memory().bytes - before == 4 * LARGE_SIZE
    x.dispose()
    assert plugrad.memory().bytes - before == 4 * LARGE_SIZE
    views.clear()
    assert plugrad.memory().bytes == before


# --- limits ---------------------------------------------------------------------------------------


@pytest.fixture
def limit_memory():
    def limit(size):
        plugrad.set_memory_limit(plugrad.memory().backends["cpu:0"].bytes + size)

    yield limit
    plugrad.set_memory_limit(None)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: plugrad.zeros(LARGE_SIZE),
        lambda x: plugrad.asarray(np.zeros(LARGE_SIZE)),
        lambda x: plugrad.broadcast_to(x, (LARGE_SIZE, 2)) + 1,
        lambda x: plugrad.exp(plugrad.broadcast_to(x, (LARGE_SIZE, 2))),
        lambda x: plugrad.tile(x, (LARGE_SIZE,)),
        lambda x: plugrad.arange(LARGE_SIZE),
    ],
)
def test_allocation_beyond_the_limit_fails(limit_memory, x, make):
    limit_memory(1000)
    with pytest.raises(OutOfMemory, match=r"exceed its limit of .*set_memory_limit"):
        make(x)
    assert (x + x).tolist() == [2.0, 4.0]
    plugrad.set_memory_limit(None)
    assert make(x).size >= LARGE_SIZE


def test_released_memory_can_be_allocated_again(limit_memory):
    limit_memory(6 * LARGE_SIZE)
    x = plugrad.zeros(LARGE_SIZE)
    with pytest.raises(MemoryError):
        plugrad.zeros(LARGE_SIZE)
    x.dispose()
    assert plugrad.zeros(LARGE_SIZE).size == LARGE_SIZE
    assert plugrad.memory().backends["cpu:0"].limit is not None


def test_invalid_memory_limits_are_rejected():
    with pytest.raises(ArgumentValueError, match="limit=-1 is negative"):
        plugrad.set_memory_limit(-1)
    with pytest.raises(ArgumentError, match=r"limit='1G' must be an integer"):
        plugrad.set_memory_limit("1G")


def test_memory_leaves_tuples_alone_that_other_threads_are_building():
    kept, failures, is_done = [plugrad.zeros(3), plugrad.Variable([1.0])], [], Event()
    before = plugrad.memory().tensors

    def build():
        while not is_done.is_set():
            try:
                assert tuple(n for n in range(50))[-1] == 49
            except SystemError as error:
                failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    builders = [Thread(target=build) for _ in range(2)]
    try:
        for builder in builders:
            builder.start()
        assert [plugrad.memory().tensors for _ in range(10)] == [before] * 10
    finally:
        is_done.set()
        sys.setswitchinterval(interval)
        for builder in builders:
            builder.join()
    assert not failures
    del kept
    assert plugrad.memory().tensors == before - 2


def test_memory_counts_tensors_of_subclasses_and_no_disposed_ones():
    class NamedTensor(plugrad.Tensor):
        __slots__ = ()

    before = plugrad.memory().tensors
    x = plugrad.zeros(3)
    named = NamedTensor(x.array, x.backend)
    assert plugrad.memory().tensors == before + 2
    named.dispose()
    assert plugrad.memory().tensors == before + 1


def test_memory_does_not_count_a_tensor_that_another_thread_is_just_making():
    before = plugrad.memory().tensors
    unfinished = object.__new__(plugrad.Tensor)
    assert plugrad.memory().tensors == before
    del unfinished
