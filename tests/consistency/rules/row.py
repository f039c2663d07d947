"""A validation rule of TensorFlow.js as a test: a valid call, the changed arguments, and the expected outcome."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import plugrad
from consistency.rules.bases import VALID_CALL_ARGUMENTS
from consistency.tfjs import tfjs_ops, tfjs_signatures
from families.case import ErrorCase
from plugrad.extend import KERNELS
from properties.calls import CALLS, public_ops

ArgumentChanges = Mapping[str, Any]
PUBLIC_OPS: Mapping[str, Callable[..., Any]] = public_ops()


@dataclass(frozen=True)
class Rule:
    """A validation rule of TensorFlow.js's ops, tested by a valid call in which some arguments are changed.

    Args:
        label: what the rule is about.
        ops: names in tfjs_names.toml, or several in one string.
        argument_changes: arguments that are put into the call that works, under plugrad's names; a function
            makes one of the argument that was there.
        error: what is raised; None if plugrad takes what TensorFlow.js refuses.
        culprit, value, remedy: what the message says; "{op}" is plugrad's name without a namespace,
            and several texts are separated by " … ".
        because: why plugrad takes it.
        expected: the right result, or a function of the arguments that returns it.
        call: instead of a changed call, for what is not in the shape of one.
    """

    label: str
    ops: str
    argument_changes: ArgumentChanges
    error: type[Exception] | None = None
    culprit: str = ""
    value: str = ""
    remedy: str = ""
    because: str = ""
    expected: Any = None
    call: Callable[[], Any] | None = None

    @property
    def names(self) -> list[str]:
        return self.ops.split()

    def run(self, op: str) -> Any:
        return (
            self.call() if self.call else call_op(op, changed_arguments(op, self.argument_changes))
        )

    def check(self, op: str) -> None:
        """Raise unless the call behaves as the rule says."""
        if self.error is not None:
            own = (tfjs_ops()[op].plugrad or op).removeprefix("kernel ").rpartition(".")[2]
            words = [
                word.replace("{op}", own)
                for column in (self.culprit, self.value, self.remedy)
                for word in column.split(" … ")
            ]
            ErrorCase(lambda: self.run(op), self.error, words).check()
            return
        result = self.run(op)
        if self.expected is not None:
            wanted = self.expected
            if callable(wanted):
                wanted = wanted(**changed_arguments(op, self.argument_changes))
            assert_close(result, wanted)


def rejects(
    label: str,
    ops: str,
    change: ArgumentChanges | Callable[[], Any],
    error: type[Exception],
    culprit: str,
    value: str,
    remedy: str,
) -> Rule:
    """Return a rule that plugrad shares: the changed call, or a function without arguments, raises an error."""
    if callable(change):
        return Rule(label, ops, {}, error, culprit, value, remedy, call=change)
    return Rule(label, ops, change, error, culprit, value, remedy)


def accepts(
    label: str,
    ops: str,
    change: ArgumentChanges | Callable[[], Any],
    because: str,
    expected: Any = None,
) -> Rule:
    """Return a rule that plugrad does not have: the changed call, or a function without arguments, works."""
    if callable(change):
        return Rule(label, ops, {}, because=because, expected=expected, call=change)
    return Rule(label, ops, change, because=because, expected=expected)


def assert_close(result: Any, wanted: Any) -> None:
    """Raise unless a tensor, or each of several, has the expected values."""
    if isinstance(wanted, tuple):
        assert isinstance(result, list | tuple)
        assert len(result) == len(wanted)
        for part, right in zip(result, wanted, strict=True):
            assert_close(part, right)
        return
    actual, expected = np.asarray(result.numpy()), np.asarray(wanted)
    assert actual.shape == expected.shape
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6)
    else:
        np.testing.assert_array_equal(actual, expected)


# --- calls ----------------------------------------------------------------------------------------


@cache
def valid_arguments(op: str) -> dict[str, Any]:
    """Return the arguments of a valid call of an op, by plugrad's names."""
    if op in VALID_CALL_ARGUMENTS:
        return VALID_CALL_ARGUMENTS[op]
    name = tfjs_ops()[op].plugrad
    args, kwargs = CALLS[name]
    return dict(inspect.signature(PUBLIC_OPS[name]).bind(*args, **kwargs).arguments)


def changed_arguments(op: str, change: ArgumentChanges) -> dict[str, Any]:
    """Return the arguments of a valid call of an op, with some of them replaced."""
    right = valid_arguments(op)
    return {
        **right,
        **{
            name: value(right[name]) if inspect.isfunction(value) else value
            for name, value in change.items()
        },
    }


def call_op(op: str, arguments: ArgumentChanges) -> Any:
    """Call an op with arguments by name; arrays are passed as tensors."""
    place = tfjs_ops()[op]
    given = {name: as_tensors(value) for name, value in arguments.items()}
    if place.kernel:
        inputs = {name: given.pop(name) for name in KERNELS[place.kernel].inputs}
        return plugrad.run_kernel(place.kernel, inputs, given)
    target = place.target
    bound = inspect.signature(target).bind_partial()
    known = {name: value for name, value in given.items() if name in place.parameters}
    bound.arguments.update(known)
    unknown = {name: value for name, value in given.items() if name not in known}
    return target(*bound.args, **bound.kwargs, **unknown)


def as_tensors(value: Any) -> Any:
    """Return arrays as tensors, also those in a list, and anything else unchanged."""
    if isinstance(value, np.ndarray):
        return plugrad.asarray(value)
    if isinstance(value, list | tuple) and any(isinstance(part, np.ndarray) for part in value):
        return type(value)(map(as_tensors, value))
    return value


def tensor_argument_names(op: str) -> list[str]:
    """Return the names of the arguments that are tensors in a valid call, and in TensorFlow.js."""
    place = tfjs_ops()[op]
    _, theirs = tfjs_signatures()[op]
    known = {place.arguments.get(name.lstrip("*"), name.lstrip("*")) for name in theirs}
    known |= {
        name for name, p in place.parameters.items() if p.kind is inspect.Parameter.VAR_POSITIONAL
    }
    return [
        name
        for name, value in valid_arguments(op).items()
        if name in known and as_tensors(value) is not value
    ]


# --- arguments ------------------------------------------------------------------------------------


def ones_like(dtype: str) -> Callable[[Any], Any]:
    """Return a function that makes an array of ones, or of strings, with the shape of its argument."""
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
