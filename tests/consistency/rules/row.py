"""A row about a validation rule of TensorFlow.js: what is changed in a call that works, and what comes of it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import plugrad
from consistency.rules.bases import BASES
from consistency.tfjs import places, signatures
from families.case import Refusal
from plugrad.extend import KERNELS
from properties.calls import CALLS, public_ops

Change = Mapping[str, Any]
OPS: Mapping[str, Callable[..., Any]] = public_ops()


@dataclass(frozen=True)
class Rule:
    """One rule of some ops; the rows about an op that have the same label test one rule together.

    Args:
        label: what the rule is about.
        ops: names in tfjs_names.toml, or several in one string.
        change: arguments that are put into the call that works, under plugrad's names; a function
            makes one of the argument that was there.
        error: what is raised; None if plugrad takes what TensorFlow.js refuses.
        culprit, value, remedy: what the message says; "{op}" is plugrad's name without a namespace,
            and several texts are separated by " … ".
        because: why plugrad takes it.
        gives: the right result, or a function of the arguments that returns it.
        call: instead of a changed call, for what is not in the shape of one.
    """

    label: str
    ops: str
    change: Change
    error: type[Exception] | None = None
    culprit: str = ""
    value: str = ""
    remedy: str = ""
    because: str = ""
    gives: Any = None
    call: Callable[[], Any] | None = None

    @property
    def names(self) -> list[str]:
        return self.ops.split()

    def run(self, op: str) -> Any:
        return self.call() if self.call else called(op, changed(op, self.change))

    def check(self, op: str) -> None:
        """Raise unless the call does what the row says."""
        if self.error is not None:
            own = (places()[op].plugrad or op).removeprefix("kernel ").rpartition(".")[2]
            words = [
                word.replace("{op}", own)
                for column in (self.culprit, self.value, self.remedy)
                for word in column.split(" … ")
            ]
            Refusal(lambda: self.run(op), self.error, words).check()
            return
        result = self.run(op)
        if self.gives is not None:
            wanted = self.gives
            if callable(wanted):
                wanted = wanted(**changed(op, self.change))
            compare(result, wanted)


def refused(
    label: str,
    ops: str,
    change: Change | Callable[[], Any],
    error: type[Exception],
    culprit: str,
    value: str,
    remedy: str,
) -> Rule:
    """Return a row about a call that plugrad refuses as well; it may be a function without arguments."""
    if callable(change):
        return Rule(label, ops, {}, error, culprit, value, remedy, call=change)
    return Rule(label, ops, change, error, culprit, value, remedy)


def taken(
    label: str,
    ops: str,
    change: Change | Callable[[], Any],
    because: str,
    gives: Any = None,
) -> Rule:
    """Return a row about a call that works in plugrad; it may be a function without arguments."""
    if callable(change):
        return Rule(label, ops, {}, because=because, gives=gives, call=change)
    return Rule(label, ops, change, because=because, gives=gives)


def compare(result: Any, wanted: Any) -> None:
    """Raise unless tensors, or several of them, have the values that are wanted."""
    if isinstance(wanted, tuple):
        assert isinstance(result, list | tuple)
        assert len(result) == len(wanted)
        for part, right in zip(result, wanted, strict=True):
            compare(part, right)
        return
    actual, expected = np.asarray(result.numpy()), np.asarray(wanted)
    assert actual.shape == expected.shape
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)
    else:
        np.testing.assert_array_equal(actual, expected)


# --- calls ----------------------------------------------------------------------------------------


@cache
def base(op: str) -> dict[str, Any]:
    """Return the arguments of a call that works, by plugrad's names."""
    if op in BASES:
        return BASES[op]
    name = places()[op].plugrad
    args, kwargs = CALLS[name]
    return dict(inspect.signature(OPS[name]).bind(*args, **kwargs).arguments)


def changed(op: str, change: Change) -> dict[str, Any]:
    """Return the arguments of the call that works, some of them changed."""
    right = base(op)
    return {
        **right,
        **{
            name: value(right[name]) if inspect.isfunction(value) else value
            for name, value in change.items()
        },
    }


def called(op: str, arguments: Change) -> Any:
    """Call an op with arguments by name, arrays as tensors."""
    place = places()[op]
    given = {name: as_input(value) for name, value in arguments.items()}
    if place.kernel:
        inputs = {name: given.pop(name) for name in KERNELS[place.kernel].inputs}
        return plugrad.run_kernel(place.kernel, inputs, given)
    target = place.target
    bound = inspect.signature(target).bind_partial()
    known = {name: value for name, value in given.items() if name in place.parameters}
    bound.arguments.update(known)
    unknown = {name: value for name, value in given.items() if name not in known}
    return target(*bound.args, **bound.kwargs, **unknown)


def as_input(value: Any) -> Any:
    """Return an array, or several, as tensors; anything else as it is."""
    if isinstance(value, np.ndarray):
        return plugrad.asarray(value)
    if isinstance(value, list | tuple) and any(isinstance(part, np.ndarray) for part in value):
        return type(value)(map(as_input, value))
    return value


def tensors(op: str) -> list[str]:
    """Return the arguments of an op that are tensors in the call that works and in TensorFlow.js."""
    place = places()[op]
    _, theirs = signatures()[op]
    known = {place.arguments.get(name.lstrip("*"), name.lstrip("*")) for name in theirs}
    known |= {
        name for name, p in place.parameters.items() if p.kind is inspect.Parameter.VAR_POSITIONAL
    }
    return [
        name for name, value in base(op).items() if name in known and as_input(value) is not value
    ]


# --- arguments ------------------------------------------------------------------------------------


def like(dtype: str) -> Callable[[Any], Any]:
    """Return a function that gives ones, or texts, in the shape of an array or of the first of several."""
    filling = "a" if dtype == "string" else 1

    def filled(right: Any) -> Any:
        if isinstance(right, list | tuple):
            return type(right)([filled(right[0]), *right[1:]])
        stored = np.dtypes.StringDType() if dtype == "string" else dtype
        return np.full(right.shape, filling, stored)

    return filled


def ones(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Return an array of ones."""
    return np.ones(shape, dtype)
