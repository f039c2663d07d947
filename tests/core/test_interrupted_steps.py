"""Steps of optimizers that are interrupted, at each place where Python looks for signals: they are taken, or not.

What is interrupted is plugrad's own code between the kernels and the variables.
"""

import signal
import sys
from _thread import interrupt_main
from dis import opname
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugrad.tensor.effects import active_host_log

TRACED_FILES = tuple(
    f"{Path(plugrad.__file__).parent / name}.py"
    for name in (
        "ops/streams",
        "optimizers/optimizer",
        "tensor/effects",
        "tracing/program",
        "transforms/variable",
    )
)
"""Where variables are assigned and steps are counted."""
WARM_UP_STEPS = 3
"""After so many steps, backends have compiled what they use."""


class SignalRaised(Exception):
    """The exception that the signal handler raises."""


class SignalOnNegation:
    """``-SignalOnNegation()`` raises a signal; Python calls the handler at the next possible place."""

    __neg__ = staticmethod(interrupt_main)


class Interruption:
    """A trace function that raises a signal just before one of the places where Python may call handlers."""

    def __init__(self, place):
        self.left = place
        self.signal = SignalOnNegation()

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename not in TRACED_FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            name = opname[frame.f_code.co_code[frame.f_lasti]]
            if name.startswith(("CALL", "JUMP_BACKWARD")):
                self.left -= 1
                if not self.left:
                    _ = -self.signal  # no call comes before the end of this function
        return self


def raise_in_handler(number, frame):
    sys.settrace(None)
    raise SignalRaised


class TwoVariableTraining:
    """Two variables that an optimizer trains."""

    def __init__(self, mode):
        self.w = plugrad.Variable(np.ones(3, "f4"), name="w")
        self.b = plugrad.Variable(np.ones(3, "f4"), name="b")
        self.optimizer = plugrad.optimizers.Momentum(lambda step: 0.1 / (1 + step), 0.5)
        self.generator = plugrad.random.Generator(0)
        self.step = self.minimize if mode == "off" else plugrad.jit(self.minimize_with_noise)

    def minimize(self, noise=1):
        """Take a step."""
        variables = [self.w, self.b]
        return self.optimizer.minimize(lambda: plugrad.sum(self.w * self.b * noise), variables)

    def minimize_with_noise(self):
        """Take a step with random numbers; if it is interrupted, the generator is restored too."""
        return self.minimize(self.generator.normal((3,)))

    def snapshot(self):
        """Return each counter of steps, and the bytes of everything that a step changes."""
        state = self.optimizer.get_state([self.w, self.b])
        arrays = [self.w.numpy(), self.b.numpy()]
        arrays += [entry["momentum"] for entry in state["variables"]]
        counts = [state["iterations"], *(entry["steps"] for entry in state["variables"])]
        return counts, [x.tobytes() for x in arrays]


@pytest.fixture(autouse=True)
def raising_handler():
    """Install a signal handler that raises."""
    before = signal.signal(signal.SIGINT, raise_in_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("mode", ["compile", "replay", "off"])
def test_interrupted_step_is_applied_completely_or_not_at_all(mode, backend):
    with plugrad.config.override("jit", mode):
        training, uninterrupted = TwoVariableTraining(mode), TwoVariableTraining(mode)
        for _ in range(WARM_UP_STEPS):
            sys.settrace(Interruption(0))  # Python 3.12 misses the opcodes of the first call
            training.step()
            sys.settrace(None)
        place = 0
        while True:
            place += 1
            interruption = Interruption(place)
            sys.settrace(interruption)
            try:
                training.step()
            except SignalRaised:
                pass
            finally:
                sys.settrace(None)
            while uninterrupted.optimizer.iterations < training.optimizer.iterations:
                uninterrupted.step()
            assert training.snapshot() == uninterrupted.snapshot(), place
            assert active_host_log.get() is None, place
            if interruption.left > 0:  # there are fewer places
                break
    assert WARM_UP_STEPS + 1 < training.optimizer.iterations < place
