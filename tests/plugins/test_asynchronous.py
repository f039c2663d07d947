"""Waiting for values without stopping the program, and for all work, on every backend."""

import asyncio
import threading

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, BackendFailed, DisposedTensor


def test_values_match_numpy(backend):
    for values in (np.float32([[1, 2], [3, 4]]), np.zeros((0, 3), np.float32), np.bool_(True)):
        x = plugrad.asarray(values)
        found = asyncio.run(x.numpy_async())
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype
        assert not found.flags.writeable


def test_several_tensors_are_awaited_at_once(backend):
    async def work():
        tensors = [plugrad.ones(1000) * i for i in range(10)]
        return await asyncio.gather(*[x.numpy_async() for x in tensors])

    for i, values in enumerate(asyncio.run(work())):
        np.testing.assert_array_equal(values, np.full(1000, i))


def test_a_disposed_tensor_has_no_values(backend):
    x = plugrad.ones(3)
    x.dispose()
    with pytest.raises(DisposedTensor):
        asyncio.run(x.numpy_async())


def test_a_tensor_may_be_disposed_while_its_values_are_awaited(backend):
    async def work():
        x = plugrad.ones(1000) * 2
        waiting = asyncio.ensure_future(x.numpy_async())
        await asyncio.sleep(0)
        x.dispose()
        return await waiting

    np.testing.assert_array_equal(asyncio.run(work()), np.full(1000, 2))


def test_other_tasks_run_while_the_values_are_computed(backend, monkeypatch):
    """The backend returns values only after another task has run."""
    go_on = threading.Event()

    async def work():
        x = plugrad.ones(3)
        to_numpy = x.backend.to_numpy

        def slow(array):
            assert go_on.wait(60)
            return to_numpy(array)

        monkeypatch.setattr(x.backend, "to_numpy", slow)
        monkeypatch.setattr(type(x.backend), "is_asynchronous", True)
        waiting = asyncio.ensure_future(x.numpy_async())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        go_on.set()
        return await waiting

    np.testing.assert_array_equal(asyncio.run(work()), [1, 1, 1])


def test_synchronize_waits_for_all_backends_or_one(backend, monkeypatch):
    waited = []
    x = plugrad.ones(3) * 2
    y = plugrad.ones(3, device="cpu")
    for tensor in (x, y):
        device = tensor.backend
        monkeypatch.setattr(device, "synchronize", lambda label=device.label: waited.append(label))
    plugrad.synchronize()
    assert {x.device, y.device} <= set(waited)
    waited.clear()
    plugrad.synchronize(x.device)
    plugrad.synchronize(x.backend)
    assert waited == [x.device] * 2


def test_synchronize_returns_when_the_work_is_done(backend):
    x = plugrad.ones((200, 200)) / 200
    for _ in range(20):
        x = x @ x * 200
    plugrad.synchronize(backend)
    np.testing.assert_allclose(x.numpy()[0, 0], x.numpy().mean(), rtol=1e-3)
    plugrad.synchronize()


def test_errors_of_synchronize(monkeypatch):
    def fail():
        raise OSError("no answer")

    with pytest.raises(ArgumentError, match="synchronize: device=: 3 must be a string"):
        plugrad.synchronize(3)
    monkeypatch.setattr(plugrad.ones(3, device="cpu").backend, "synchronize", fail)
    with pytest.raises(BackendFailed, match=r"synchronize\(\) of backend 'cpu'.*no answer"):
        plugrad.synchronize("cpu")
