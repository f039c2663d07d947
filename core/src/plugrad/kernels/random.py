"""Kernels that draw random numbers.

They are functions of a key and a counter, which come as one tensor of six int32 words: the two of the key and the
four of the counter, lower words first. So equal words give equal numbers on every backend, and what a program draws
next is known without a value of a device. Block n of Philox 4x32-10 (Salmon and others, 2011) for a counter c has
four words of 32 bits, which depend on the key and on ``c + n`` modulo ``2**128``. They are int32 because every backend
has this dtype, though the paper speaks of numbers without sign.

Args:
    state: a key and a counter, six int32 words.
    shape: the shape of the result.
"""

from plugrad.contract.kernel import kernel
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.types.dtype import FLOATING, INEXACT, float32, int32
from plugrad.types.shapes import broadcasts_to
from plugrad.types.specs import Shape, Shaped, Spec

STATE_WORDS = 6
"""The number of 32-bit words of a random state: two of a key and four of a counter."""
WORD_DTYPES = frozenset({int32})
"""The dtype of random words: int32, of which they fill all bits."""


def _check_state(state: Spec) -> None:
    """Raise unless a random state has the words of a key and a counter."""
    if state.shape != (STATE_WORDS,):
        raise ShapeError(
            f"state must have the shape (6,): two words of a key and four of a counter; its shape is {state.shape}"
        )


@kernel("RandomBits", accepts=WORD_DTYPES)
def random_bits(state: Spec, *, shape: Shape) -> Spec:
    """Return random words, each of which has 32 random bits.

    Element n of the result, in row-major order, is word ``n % 4`` of block ``n // 4``.

    Returns:
        an int32 tensor of `shape`.
    """
    _check_state(state)
    return Shaped(shape, int32)


@kernel("RandomNormal", accepts=WORD_DTYPES)
def random_normal(state: Spec, *, shape: Shape) -> Spec:
    """Return float32 numbers of the normal distribution with mean 0 and standard deviation 1.

    Numbers 2n and 2n + 1 are made of words 2n and 2n + 1 of RandomBits by the transformation of Box and Muller (1958).
    Let a and b be these words, without sign, and all numbers be rounded to float32:

    - the radius r is ``sqrt(-2 * log(u))`` with ``u = (a // 2 | 1) * 2**-31``;
    - the angle t is ``pi / 4 * 2**-31`` times the lower 30 bits of b, shifted up by 2 and read with a sign;
    - the numbers are ``r * cos(t)`` and ``r * sin(t)``. The first has the opposite sign if the highest bit of b is
      set, and they change places if the second highest is.

    Returns:
        a float32 tensor of `shape`.
    """
    _check_state(state)
    return Shaped(shape, float32)


@kernel("Multinomial", accepts=FLOATING)
def multinomial(logits: Spec, state: Spec, *, num_samples: int, normalized: bool) -> Spec:
    """Return classes drawn for each row of logits, or of probabilities if `normalized`.

    Sample i of row b is the first class at which the cumulative sum of the probabilities exceeds
    ``u * total``, where u is the upper 24 bits of word ``b * num_samples + i``, as in RandomBits, times ``2**-24``.

    Therefore samples do not depend on each other, and a key and a counter give the same samples on every backend,
    except where u is so close to the border between two classes that rounding decides. The samples
    of a row are unspecified if its logits contain NaN or infinities, or if its probabilities are
    negative or all 0.

    Args:
        logits: logarithms of probabilities that need not add up to 1, or probabilities, (rows, classes).
        num_samples: how many classes are drawn for each row, 0 or more.
        normalized: whether the logits are probabilities.

    Returns:
        int32 classes (rows, num_samples).
    """
    if state.dtype != int32:
        raise DTypeError(
            f"Multinomial: state is {state.dtype}; the words of a key and a counter are int32"
        )
    _check_state(state)
    if len(logits.shape) != 2 or logits.shape[1] < 1:
        raise ShapeError(
            f"logits must be rows of at least one class; their shape is {logits.shape}"
        )
    if num_samples < 0:
        raise ArgumentValueError(f"num_samples={num_samples} must be 0 or more")
    return Shaped((logits.shape[0], num_samples), int32)


@kernel("Dropout", accepts=INEXACT)
def dropout(x: Spec, state: Spec, *, rate: float, noise_shape: Shape) -> Spec:
    """Return the elements of x that random words choose, divided by ``1 - rate``, and 0 in place of the others.

    An element is chosen if its word is less than ``2**32 * (1 - rate) - 2**31``, rounded to a whole number, or the
    least one.

    Args:
        x: a tensor of any shape.
        rate: how probable 0 is, at least 0 and less than 1.
        noise_shape: the shape of the words, as RandomBits draws them; it broadcasts to the shape of x.

    Returns:
        a tensor of the shape and dtype of x.
    """
    if state.dtype != int32:
        raise DTypeError(
            f"Dropout: state is {state.dtype}; the words of a key and a counter are int32"
        )
    _check_state(state)
    if not 0 <= rate < 1:
        raise ArgumentValueError(f"rate={rate} must be at least 0 and less than 1")
    if not broadcasts_to(noise_shape, x.shape):
        raise ShapeError(
            f"noise_shape={noise_shape} must broadcast to the shape of x, which is {x.shape}"
        )
    return Shaped(x.shape, x.dtype)


def greatest_chosen_word(rate: float) -> int:
    """Return the greatest random word, as a signed integer, for which `dropout` keeps an element."""
    return max(round((1 - rate) * 2.0**32), 1) - 2**31 - 1
