"""Kernels that draw random numbers. The seed is an attribute: the same seed gives the same numbers."""

from plugrad.contract.kernel import kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import FLOATING, int32
from plugrad.types.specs import Shaped, Spec


@kernel("Multinomial", accepts=FLOATING)
def multinomial(logits: Spec, *, num_samples: int, seed: int, normalized: bool) -> Spec:
    """Return classes drawn for each row of logits, or of probabilities if `normalized`.

    Sample i of row b is the first class at which the cumulative sum of the probabilities exceeds
    ``u * total``, where u is the n-th uniform number of the seed, with ``n = b * num_samples + i``:
    the upper 24 bits of word ``n % 4`` of block ``n // 4`` of Philox 4x32-10 (Salmon and others,
    2011), times ``2**-24``. The key consists of the 64 bits of the seed, the lower ones first, and the
    counter is the number of the block.

    Therefore samples do not depend on each other, and a seed gives the same samples on every backend,
    except where u is so close to the border between two classes that rounding decides. The samples
    of a row are unspecified if its logits contain NaN or infinities, or if its probabilities are
    negative or all 0.

    Args:
        logits: logarithms of probabilities that need not add up to 1, or probabilities, (rows, classes).
        num_samples: how many classes are drawn for each row, 0 or more.
        seed: the seed, from 0 to 2**64 - 1.
        normalized: whether the logits are probabilities.

    Returns:
        int32 classes (rows, num_samples).
    """
    if len(logits.shape) != 2 or logits.shape[1] < 1:
        raise ShapeError(
            f"logits must be rows of at least one class; their shape is {logits.shape}"
        )
    if num_samples < 0:
        raise ArgumentValueError(f"num_samples={num_samples} must be 0 or more")
    if not 0 <= seed < 2**64:
        raise ArgumentValueError(f"seed={seed} must be from 0 to 2**64 - 1")
    return Shaped((logits.shape[0], num_samples), int32)
