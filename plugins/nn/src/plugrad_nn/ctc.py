"""Connectionist temporal classification: the loss of labels whose places in a sequence are not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentValueError, DTypeError, ShapeError
from plugrad_nn.arguments import check_integer

if TYPE_CHECKING:
    from plugrad import Tensor


def ctc_loss(
    labels: Any, logits: Any, label_lengths: Any, logit_lengths: Any, *, blank: int = 0
) -> Tensor:
    """The negative logarithm of the probability of labels in all alignments to a sequence (Graves et al., 2006).

    >>> logits = plugrad.zeros((1, 2, 3))  # two elements; three classes, of which one is blank
    >>> nn.losses.ctc_loss([[1]], logits, [1], [2])  # "1 1", "blank 1" and "1 blank": 3 of 9
    tensor([1.0986123], dtype=float32)

    The result has the shape (batch,). It is infinite where a sequence is too short for its labels.

    Args:
        labels: integers of shape (batch, labels); those beyond a length do not count.
        logits: unscaled logarithms of probabilities, of shape (batch, time, classes).
        label_lengths: the number of labels of each example, integers of shape (batch,).
        logit_lengths: the number of elements of each sequence, likewise.
        blank: the class that stands between labels.

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: labels or lengths are not integers.
        ArgumentError, ArgumentValueError: `blank` is no class.
    """
    logits = plugrad.asarray(logits)
    labels, label_lengths, logit_lengths = (
        _as_integers(name, x, logits)
        for name, x in (
            ("labels", labels),
            ("label_lengths", label_lengths),
            ("logit_lengths", logit_lengths),
        )
    )
    _check_shapes(labels, logits, label_lengths, logit_lengths)
    if check_integer("ctc_loss", "blank", blank) >= logits.shape[-1]:
        raise ArgumentValueError(
            f"ctc_loss: blank={blank} is none of the {logits.shape[-1]} classes"
        )
    batch, time, _ = logits.shape
    states = _interleave_blanks(labels, blank)
    size = states.shape[1]
    places = plugrad.arange(size, device=logits.backend)
    lowest = float(plugrad.finfo(logits.dtype).min) / 4  # like -inf, without NaN in gradients
    # The blank of the state before the first may be anything but a label, which the first state follows.
    following = _shift(states, 2, blank)
    may_skip = plugrad.logical_and(states != blank, states != following)

    def advance_one_step(alpha: Tensor, element: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        """Return the log-probabilities of the states after another element."""
        emission, is_present = element
        skipped = plugrad.where(may_skip, _shift(alpha, 2, lowest), lowest)
        ways = plugrad.stack([alpha, _shift(alpha, 1, lowest), skipped])
        reached = plugrad.log_sum_exp(ways, axis=0) + emission
        return plugrad.where(is_present, plugrad.maximum(reached, lowest), alpha), None

    # Before the first element, it is as if a state before the first blank had been reached.
    start = plugrad.where(places == 0, 0.0, lowest)
    alpha = plugrad.broadcast_to(plugrad.astype(start, logits.dtype), (batch, size))
    if time:
        emissions = _emissions(logits, states)
        steps = plugrad.arange(time, device=logits.backend, dtype=logit_lengths.dtype)
        present = plugrad.expand_dims(steps, axis=-1) < logit_lengths
        present = plugrad.expand_dims(present, axis=-1)
        first = plugrad.where(places < 2, emissions[0], lowest)
        alpha = plugrad.where(present[0], first, alpha)
        alpha, _ = plugrad.scan(advance_one_step, alpha, (emissions[1:], present[1:]))
    ends = plugrad.expand_dims(2 * label_lengths, axis=-1)
    is_end = plugrad.logical_or(places == ends, places == ends - 1)
    total = plugrad.log_sum_exp(plugrad.where(is_end, alpha, lowest), axis=-1)
    return plugrad.where(total < lowest / 2, float("inf"), -total)


def _as_integers(argument_name: str, x: Any, logits: Tensor) -> Tensor:
    """Return an argument as an int32 tensor on the device of the logits, checked."""
    if not isinstance(x, plugrad.Tensor):
        x = plugrad.asarray(x, device=logits.backend)
    if not plugrad.isdtype(x.dtype, "integral"):
        raise DTypeError(f"ctc_loss: {argument_name} are {x.dtype}; they must be integers")
    return plugrad.astype(x, plugrad.int32)


def _check_shapes(
    labels: Tensor, logits: Tensor, label_lengths: Tensor, logit_lengths: Tensor
) -> None:
    """Raise unless the shapes of the arguments fit."""
    firsts = {labels.shape[:1], label_lengths.shape, logit_lengths.shape}
    if logits.ndim != 3 or labels.ndim != 2 or firsts != {logits.shape[:1]}:
        raise ShapeError(
            f"ctc_loss: labels have shape {labels.shape}, logits {logits.shape}, label_lengths {label_lengths.shape} "
            f"and logit_lengths {logit_lengths.shape}; they must be (batch, labels), (batch, time, classes), (batch,) "
            "and (batch,)"
        )


def _interleave_blanks(labels: Tensor, blank: int) -> Tensor:
    """Return the states of an alignment: blanks before, between and after the labels."""
    batch, count = labels.shape
    both = plugrad.stack([plugrad.full_like(labels, blank), labels], axis=-1)
    return plugrad.pad(
        plugrad.reshape(both, (batch, 2 * count)), [(0, 0), (0, 1)], constant_value=blank
    )


def _emissions(logits: Tensor, states: Tensor) -> Tensor:
    """Return the log-probability of each state at each time step, of shape (time, batch, states)."""
    batch, time, _ = logits.shape
    indices = plugrad.broadcast_to(
        plugrad.expand_dims(states, axis=1), (batch, time, states.shape[1])
    )
    found = plugrad.take_along_axis(plugrad.log_softmax(logits), indices, axis=-1)
    return plugrad.permute_dims(found, (1, 0, 2))


def _shift(x: Tensor, place_count: int, value: float) -> Tensor:
    """Shift states to later places, and fill the first places with a value."""
    moved = plugrad.pad(x, [(0, 0), (place_count, 0)], constant_value=value)
    return moved[:, : x.shape[1]]
