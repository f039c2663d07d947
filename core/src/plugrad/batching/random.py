"""Batching rules of random draws: the examples take consecutive parts of one sequence.

Each part begins with a number of the counter, which has four words. A batched state without the hidden axis is that of
the first example; see `plugrad.transforms.batched_kernels.DrawState`.
"""

from typing import Any

from plugrad.contract.kernel import Kernel
from plugrad.kernels import movement, random
from plugrad.registry.batching import Batch, BatchingRule, register_batching
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import count_elements
from plugrad.types.specs import Shape

WORDS_PER_PHILOX_BLOCK = 4
"""The 32-bit random words that one counter value of Philox gives."""
BATCHED_STATES_ERROR_MESSAGE = "the states are batched, as run_kernel may hand them over"


def _make_draw_rule(kernel: Kernel[..., Any]) -> BatchingRule:
    def rule(batch: Batch, state: Tensor, *, shape: Shape) -> Tensor | None:
        if state.ndim > 1:
            return None
        count = count_elements(shape)
        padded = -(-count // WORDS_PER_PHILOX_BLOCK) * WORDS_PER_PHILOX_BLOCK
        numbers = kernel(state, shape=(batch.size, padded))
        if padded != count:
            numbers = movement.slice(numbers, begin=(0, 0), size=(batch.size, count))
        return movement.reshape(numbers, shape=(batch.size, *shape))

    return rule


def _multinomial(
    batch: Batch, logits: Tensor, state: Tensor, *, num_samples: int, normalized: bool
) -> Tensor | None:
    if not batch.is_batched[1] or state.ndim > 1:
        return None  # its body of ops takes the same numbers for all examples
    found = random.multinomial(
        batch.fold(logits, 0), state, num_samples=num_samples, normalized=normalized
    )
    return batch.unfold(found)


def _dropout(
    batch: Batch, x: Tensor, state: Tensor, *, rate: float, noise_shape: Shape
) -> Tensor | None:
    is_shared = not batch.is_batched[1]
    if state.ndim > 1 or (not is_shared and count_elements(noise_shape) % WORDS_PER_PHILOX_BLOCK):
        return None  # its body of ops draws whole blocks for each example
    x = batch.with_batch_axis(x, 0)
    missing = x.ndim - 1 - len(noise_shape)
    shape = (1 if is_shared else batch.size, *(1,) * missing, *noise_shape)
    return random.dropout(x, state, rate=rate, noise_shape=shape)


register_batching(
    random.random_bits,
    _make_draw_rule(random.random_bits),
    except_when=BATCHED_STATES_ERROR_MESSAGE,
)
register_batching(
    random.random_normal,
    _make_draw_rule(random.random_normal),
    except_when=BATCHED_STATES_ERROR_MESSAGE,
)
register_batching(random.multinomial, _multinomial)
register_batching(
    random.dropout, _dropout, except_when="an example does not take whole blocks of words"
)
