"""The gradients of one list of variables: which of them travel together, and their sums over the ranks."""

from __future__ import annotations

import time
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import plugrad
from plugrad_distributed.world import ExchangeDescription, World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from plugrad import Variable


class GradientBucket(NamedTuple):
    """Variables of one dtype whose gradients are sent together: their positions and total number of elements."""

    dtype: Any
    positions: tuple[int, ...]
    element_count: int


def make_buckets(variables: Sequence[Variable], max_bytes: int) -> list[GradientBucket]:
    """Return buckets of at most `max_bytes` bytes, or of one variable; the last variables come first.

    A backward pass computes the gradients of the last layers first, so that the first buckets are complete while it
    goes on.
    """
    buckets: list[GradientBucket] = []
    open_ones: dict[Any, list[int]] = {}

    def close_bucket(dtype: Any) -> None:
        positions = tuple(open_ones.pop(dtype))
        buckets.append(GradientBucket(dtype, positions, sum(variables[i].size for i in positions)))

    for position in reversed(range(len(variables))):
        dtype = variables[position].dtype
        known = open_ones.get(dtype)
        if (
            known
            and sum(variables[i].size for i in (*known, position)) * dtype.itemsize > max_bytes
        ):
            close_bucket(dtype)
        open_ones.setdefault(dtype, []).append(position)
    for dtype in list(open_ones):
        close_bucket(dtype)
    return buckets


class GradientReduction:
    """The sums of the gradients of one list of variables: begun, sent and received by kernels."""

    def __init__(self, world: World, variables: Sequence[Variable], limit: int) -> None:
        """Divide the variables into buckets."""
        self.world: Final = world
        self.variables: Final = tuple(variables)
        self.buckets: Final = make_buckets(variables, limit)
        lines = [
            f"gradient {i + 1} of {len(variables)}: {v.name or 'a variable'} {v.dtype}{list(v.shape)}"
            for i, v in enumerate(variables)
        ]
        self.description: Final = ExchangeDescription.from_lines(
            f"a step of {len(variables)} gradients", *lines
        )
        token = plugrad.asarray(0, device=self.variables[0].backend)
        self.kept_token: Final = plugrad.Variable(token, trainable=False, name="accumulated")
        """The token of what was accumulated last."""
        self.kept: dict[int, NDArray[Any]] = {}
        """The sums of gradients that were accumulated, times their numbers of examples, by bucket."""
        self.kept_examples = 0.0
        self.examples = 0.0
        """The examples of all ranks in this step."""
        self._own: float | None = None
        self._agreement: Future[Any] | None = None
        self._sums: dict[int, Future[NDArray[Any]]] = {}
        self._buffers: dict[int, NDArray[Any]] = {}
        """What buckets are summed in, step after step: the pages of new memory would be cleared first."""

    def begin(self, examples: int | None) -> None:
        """Announce to all ranks the gradients to sum, and this rank's number of examples."""
        if self._sums:  # of a step that has failed; they may still be summed
            self._sums.clear()
            self._buffers.clear()
        own = self.world.examples if examples is None else examples
        self._own = 1.0 if own is None else float(own)
        self._agreement = self.world.submit(self.world.check_agreement, self.description, self._own)

    def loss_scale(self) -> float:
        """Return this rank's share of the examples times the number of ranks: 1 where all ranks have equal numbers."""
        assert self._agreement is not None
        assert self._own is not None
        self.examples = float(self._agreement.result().sum())
        return self._own * self.world.size / self.examples if self.examples else 0.0

    def send(self, bucket_index: int, flat_gradients: NDArray[Any], is_scaled: bool) -> None:
        """Start the sum of a bucket, including what `accumulate` has added to it."""
        factor = 1.0 if is_scaled else self.loss_scale()
        kept = self.kept.pop(bucket_index, None)
        total = self.kept_examples + self.examples
        if kept is not None:
            factor *= self.examples / total if total else 0.0
        buffer = self._bucket_buffer(bucket_index, flat_gradients)
        with np.errstate(over="ignore", invalid="ignore"):
            _multiply_keeping_zeros(flat_gradients, factor / self.world.size, buffer)
            if kept is not None and total:
                buffer += kept / (total * self.world.size)
        if not self.kept:
            self.kept_examples = 0.0
        self._sums[bucket_index] = self.world.submit(self._sum_over_ranks, buffer)

    def accumulate(self, bucket_index: int, flat_gradients: NDArray[Any]) -> None:
        """Add the gradients of a bucket to the bucket that the next step sends."""
        if bucket_index == 0:
            self.kept_examples += self.examples
        # Gradients may be infinite in a step that a loss scale skips.
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = flat_gradients.astype(_sum_dtype(flat_gradients)) * self.examples
            if bucket_index in self.kept:
                weighted += self.kept[bucket_index]
        self.kept[bucket_index] = weighted

    def discard_accumulated(self) -> None:
        """Discard the gradients that wait for the next step."""
        self.kept.clear()
        self.kept_examples = 0.0

    def receive(self, bucket_index: int) -> NDArray[Any]:
        """Return the mean of a bucket over all examples of all ranks; the next step overwrites it."""
        start = time.perf_counter_ns()
        total = self._sums.pop(bucket_index).result()
        self.world.waited += time.perf_counter_ns() - start
        return total

    def _bucket_buffer(self, bucket_index: int, flat_gradients: NDArray[Any]) -> NDArray[Any]:
        """Return the buffer of a bucket, in the dtype of its sum."""
        found = self._buffers.get(bucket_index)
        if found is None or found.size != flat_gradients.size:
            found = self._buffers[bucket_index] = np.empty(
                flat_gradients.size, _sum_dtype(flat_gradients)
            )
        return found

    def _sum_over_ranks(self, buffer: NDArray[Any]) -> NDArray[Any]:
        if self.world.size > 1:
            self.world.sum(buffer)
        return buffer


def _sum_dtype(gradients: NDArray[Any]) -> np.dtype[Any]:
    """Return the dtype that gradients are summed in."""
    return np.dtype(np.float32) if gradients.dtype == np.float16 else gradients.dtype


def _multiply_keeping_zeros(gradients: NDArray[Any], factor: float, out: NDArray[Any]) -> None:
    """Multiply, where 0 times infinity is 0, because a rank without examples has no gradient."""
    if factor == 0:
        out[...] = 0
    elif factor == 1:
        out[...] = gradients
    else:
        np.multiply(gradients, out.dtype.type(factor), out=out)


def split_flat(vector: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Split a one-dimensional tensor into tensors of the given shapes."""
    parts: list[Any] = []
    start = 0
    for shape in shapes:
        end = start + prod(shape)
        parts.append(vector[start:end].reshape(shape))
        start = end
    return parts
