"""Profiles of kernels, and the check that finds the first NaN."""

import json
import threading

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, NotFinite


def test_calls_bytes_and_shapes(backend):
    a, b = plugrad.ones((2, 3)), plugrad.ones((3,))
    with plugrad.profile() as measured:
        for _ in range(2):
            y = a + b
        y = plugrad.sum(y + y)
    by_name = {kernel.kernel: kernel for kernel in measured.kernels}
    assert set(by_name) == {"Add", "Sum"}
    add = by_name["Add"]
    assert (add.backend, add.calls) == (a.backend.label, 3)
    assert add.bytes == 4 * (2 * (6 + 3 + 6) + 3 * 6)
    assert add.shapes == {((2, 3), (3,)): 2, ((2, 3), (2, 3)): 1}
    assert all(kernel.seconds > 0 for kernel in by_name.values())
    lines = str(measured).splitlines()
    assert len(lines) == 3
    assert "shapes of most calls" in lines[0]
    (line,) = (line for line in lines if line.startswith("Add"))
    assert line.endswith("2×3 3 and 1 more")


def test_the_functions_are_the_same_before_and_after(backend):
    """Profiling leaves no wrapper behind, even after an error in its block."""
    x = plugrad.ones((2,))
    functions = x.backend.functions
    y = x + x
    before = functions["Add"]
    with plugrad.profile():
        y = x + x
        assert functions["Add"] is not before
    with pytest.raises(plugrad.errors.ShapeError), plugrad.profile():
        plugrad.reshape(y, (3,))
    y = x + x
    assert y.shape == (2,)
    assert functions["Add"].__qualname__ == before.__qualname__


def test_blocks_inside_each_other_and_threads():
    x = plugrad.ones((2,), device="cpu")
    with plugrad.profile() as outer:
        plugrad.exp(x)
        with plugrad.profile(synchronize=False) as inner:
            thread = threading.Thread(target=lambda: plugrad.exp(x))
            thread.start()
            thread.join()
        plugrad.exp(x)
        with pytest.raises(ArgumentError, match="open already"):
            outer.__enter__()
    assert ([k.calls for k in outer.kernels], [k.calls for k in inner.kernels]) == ([3], [1])
    with outer:
        plugrad.sin(x)
    assert [k.kernel for k in outer.kernels] == ["Sin"]
    with pytest.raises(ArgumentError, match="synchronize='no'"):
        plugrad.profile(synchronize="no")


def test_the_trace_has_an_event_for_each_call(tmp_path):
    x = plugrad.ones((2, 3), device="cpu")
    with plugrad.profile() as measured:
        plugrad.exp(x)
        plugrad.concat([x, x])
        plugrad.zeros((3,), device="cpu")
    measured.save(tmp_path / "trace.json")
    everything = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    check_trace(everything)
    events = [event for event in everything if event["ph"] == "X"]
    assert [event["name"] for event in events][:2] == ["Exp", "Concat"]
    assert events[1]["args"]["inputs"] == ["float32[2, 3]", "float32[2, 3]"]
    assert all(event["dur"] > 0 for event in events)
    starts = [event["ts"] for event in events]
    assert starts == sorted(starts)
    assert starts[0] == 0


def check_trace(events):
    """Check events by the rules of the Trace Event Format: the required fields of each kind, and their types."""
    numbers = {"ts", "dur", "pid", "tid"}
    needed = {
        "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"},
        "C": {"name", "ph", "ts", "pid", "args"},
        "M": {"name", "ph", "pid", "args"},
    }
    for event in events:
        assert needed[event["ph"]] <= event.keys()
        assert all(isinstance(event[key], int | float) for key in numbers & event.keys())
        assert all(event[key] >= 0 for key in numbers & event.keys())
    counters = [event for event in events if event["ph"] == "C"]
    assert counters
    assert all(isinstance(n, int) for event in counters for n in event["args"].values())
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= named


def test_memory_after_calls(backend):
    with plugrad.profile() as measured:
        x = plugrad.ones((64, 1024))
        y = x + x
        del x
        y = y * y
    used = [event.memory for event in measured._events]
    assert used[1] - used[0] >= y.size * 4  # x and y
    assert max(used) <= plugrad.memory().backends[y.device].peak
    with plugrad.profile(synchronize=False) as measured:
        y = y + y
    assert [event.memory for event in measured._events] == [None]


def test_file_suffix_selects_the_profile_format(tmp_path):
    with plugrad.profile() as measured:
        pass
    measured.save(str(tmp_path / "empty.html"))
    assert '{"events":[],"kernels":[]' in (tmp_path / "empty.html").read_text()
    with pytest.raises(ArgumentValueError, match=r"'a.txt' must end in .html or .json"):
        measured.save("a.txt")
    with pytest.raises(ArgumentError, match="path=3 must be the path of a file"):
        measured.save(3)


def test_the_first_result_that_is_not_finite_is_an_error(backend):
    x = plugrad.asarray([[1.0, 2.0], [0.0, -1.0]])
    with plugrad.config.override("check_finite", True):
        with pytest.raises(NotFinite) as error:
            plugrad.sqrt(plugrad.log(x)) + 1.0
        message = str(error.value)
        wanted = [
            "Log on backend",
            backend,
            "2 of 4",
            "-inf",
            "[1, 0]",
            "x: float32",
            "from -1.0 to 2.0",
        ]
        assert [part for part in wanted if part not in message] == []
        with pytest.raises(NotFinite, match="Sqrt"):
            plugrad.grad(lambda x: plugrad.sum(plugrad.sqrt(x)))(x)
        # What is not finite to begin with goes through, and so do kernels without floats.
        y = plugrad.asarray([np.inf, np.nan, 1.0]) * 2.0
        np.testing.assert_array_equal(y.numpy(), [np.inf, np.nan, 2.0])
        assert plugrad.full((2,), np.inf)[0].item() == np.inf
        assert plugrad.isnan(y)[1].item()
        assert plugrad.asarray(["a"]).shape == (1,)
    assert plugrad.log(x)[1, 0].item() == -np.inf


def test_fused_steps_are_rows_with_their_kernels(backend):
    @plugrad.jit
    def f(x):
        y = plugrad.sort(plugrad.exp(x) * 2 + x)
        return plugrad.sin(y) - y, x

    x = plugrad.ones(300)
    expected = f(x)[0].numpy()
    with plugrad.profile() as single:
        f(x)
    kernels = {"Exp", "Multiply", "Add", "Sort", "Sin", "Sub"}
    assert {row.kernel for row in single.kernels} == kernels
    assert not any(row.steps for row in single.kernels)
    with plugrad.profile(fused=True) as measured:
        for _ in range(3):
            found = f(x)[0].numpy()
    np.testing.assert_array_equal(found, expected)
    fused = [row for row in measured.kernels if row.steps]
    assert {name for row in measured.kernels for name in row.steps or (row.kernel,)} == kernels
    for row in fused:
        assert row.kernel == " + ".join([*row.steps[:4], *["…"] * (len(row.steps) > 4)])
        assert (row.calls, row.backend) == (3, x.backend.label)
        assert row.bytes > 0
    with plugrad.profile(fused=True) as outer, plugrad.profile() as inner:
        f(x)
    assert {row.kernel for row in inner.kernels} == {row.kernel for row in outer.kernels} == kernels
    with pytest.raises(plugrad.errors.ArgumentError, match="fused"):
        plugrad.profile(fused="yes")
