"""Reading ahead in a thread."""

import threading
import time

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError


def prefetch_threads():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def wait_until(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it has not come")


def test_prefetched_items_keep_their_order_in_each_iteration():
    ahead = nn.prefetch([1, 2, 3], size=1)
    assert [*ahead] == [*ahead] == [1, 2, 3]
    assert len(ahead) == 3
    assert [*nn.prefetch([])] == []
    assert not hasattr(nn.prefetch({1}.__iter__()), "__len__")
    assert prefetch_threads() == []


def test_no_more_than_size_items_are_ready():
    made = []
    for item in nn.prefetch(made.append(i) or i for i in range(9)):
        wait_until(lambda: len(made) >= min(9, item + 4))  # noqa: B023 - called at once
        # One is in the loop, two are ready, and one waits for a place.
        assert len(made) <= item + 4
    assert made == [*range(9)]


def test_prefetched_generator_continues_where_it_stopped():
    ahead = nn.prefetch(iter(range(4)))
    assert next(ahead) == 0
    assert [*ahead] == [1, 2, 3]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_prefetched_errors_are_raised_in_order(error):
    def generate():
        yield 1
        raise error("here")

    found = []
    with pytest.raises(error, match="here") as caught:
        found.extend(nn.prefetch(generate()))
    assert any(entry.name == "generate" for entry in caught.traceback)
    assert prefetch_threads() == []


def test_end_of_the_loop_ends_the_prefetch_thread():
    class Endless:
        def __iter__(self):
            while True:
                yield 1

    def loop():
        for _ in nn.prefetch(Endless()):
            assert len(prefetch_threads()) == 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()
    wait_until(lambda: prefetch_threads() == [])


def test_fit_reads_ahead_with_the_active_backend(rng):
    x, y = rng.normal(size=(6, 3)).astype(np.float32), np.zeros((6, 1), np.float32)
    devices = []

    class Loader:
        def __iter__(self):
            for i in range(0, 6, 2):
                devices.append(plugrad.ones(1).device)
                yield x[i : i + 2], y[i : i + 2]

    def fitted(batches, **options):
        params = nn.Dense(1).init(0, (3,))
        loss, optimizer = plugrad.losses.mean_squared_error, plugrad.optimizers.SGD(0.1)
        nn.fit(nn.Dense(1), params, batches, loss=loss, optimizer=optimizer, epochs=2, **options)
        return params["kernel"].numpy()

    with plugrad.use("cpu"):
        found = fitted(nn.prefetch(Loader()))
        np.testing.assert_array_equal(found, fitted(Loader()))
        generator = iter([*Loader(), *Loader()])
        np.testing.assert_array_equal(found, fitted(nn.prefetch(generator), steps_per_epoch=3))
        with pytest.raises(ArgumentError, match="give steps_per_epoch="):
            fitted(nn.prefetch(iter(Loader())))
    assert set(devices) == {"cpu:0"}
    wait_until(lambda: prefetch_threads() == [])


def test_prefetch_rejects_invalid_arguments():
    with pytest.raises(ArgumentError, match=r"prefetch: 5 must be an iterable"):
        nn.prefetch(5)
    with pytest.raises(ArgumentValueError, match=r"size=0 must be at least 1"):
        nn.prefetch([], size=0)
