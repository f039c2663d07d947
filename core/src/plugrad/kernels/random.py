"""Kernels that draw random numbers. The seed is an attribute: the same seed gives the same numbers."""

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, int32
from plugrad.types.specs import Shaped, Spec


@kernel("Multinomial", accepts=FLOATING)
def multinomial(logits: Spec, *, num_samples: int, seed: int, normalized: bool) -> Spec:
    """Draw classes for each row of logits, or of probabilities if they are `normalized`.

    Sample i of row b is the first class at which the sum of the probabilities so far is more than
    ``u * total``, with the n-th uniform number u of the seed, ``n = b * num_samples + i``: the upper
    24 bits of word ``n % 4`` of block ``n // 4`` of Philox 4x32-10 (Salmon and others, 2011), times
    ``2**-24``. The key are the 64 bits of the seed, the lower ones first, and the counter is the
    number of the block.

    So samples do not depend on each other, and the same seed gives the same ones everywhere, except
    where u is so close to the border between two classes that rounding decides. Nothing is promised
    about rows of logits with NaN or infinities, or of probabilities that are negative or all 0.
    """
    accepted("Multinomial", logits, FLOATING)
    if len(logits.shape) != 2 or logits.shape[1] < 1:
        raise ShapeError(
            f"Multinomial: logits must be rows of at least one class; their shape is {logits.shape}"
        )
    if num_samples < 0:
        raise ArgumentValueError(f"Multinomial: num_samples={num_samples} must be 0 or more")
    if not isinstance(seed, int) or not 0 <= seed < 2**64:  # pyright: ignore[reportUnnecessaryIsInstance] - people pass floats
        raise ArgumentValueError(f"Multinomial: seed={seed} must be an integer from 0 to 2**64 - 1")
    return Shaped((logits.shape[0], num_samples), int32)
