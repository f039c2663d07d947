"""Kernels of attention: averages of values, weighted by how well keys match queries.

Args:
    q: the queries, (…, queries, width).
    k: the keys, (…, keys, width), of the dtype of q.
    v: the values, (…, keys, size), of the dtype of q.
    mask: numbers that are added to the scores, (…, queries, keys), of the dtype of q; -inf leaves out a key.
    dy: the gradient of the result of `attention`, of the shape and the dtype of that result.
    scale: the factor of the products of queries and keys, usually ``1 / sqrt(width)``.

Returns:
    an average of values for each query, (…, queries, size), in the dtype of q.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import FLOATING, DType
from plugrad.types.specs import Shaped, Spec


@kernel("Attention", accepts=FLOATING)
def attention(q: Spec, k: Spec, v: Spec, mask: Spec | None = None, *, scale: float) -> Spec:
    """Return ``softmax(scale * q kᵀ + mask) v`` (Vaswani and others, 2017), and 0 where the mask leaves no key.

    The last two axes of q are (queries, width), those of k (keys, width), of v (keys, size), and of the
    mask (queries, keys), each of which may be 1. The axes before them are equal; a mask need not have any.
    """
    dtype = _check_inputs("Attention", q, k, v, mask)
    return Shaped((*q.shape[:-1], v.shape[-1]), dtype)


@kernel("AttentionGrad", accepts=FLOATING)
def attention_gradient(
    dy: Spec, q: Spec, k: Spec, v: Spec, mask: Spec | None = None, *, scale: float
) -> tuple[Spec, Spec, Spec]:
    """Return the gradients of `attention` for q, k and v.

    Returns:
        dq: the gradient for q, of its shape.
        dk: the gradient for k, of its shape.
        dv: the gradient for v, of its shape.
    """
    dtype = _check_inputs("AttentionGrad", q, k, v, mask)
    shape = (*q.shape[:-1], v.shape[-1])
    if dy.shape != shape:
        raise ShapeError(f"dy has shape {dy.shape}; the result of attention has shape {shape}")
    check_same_dtype("AttentionGrad", dy, q)
    return Shaped(q.shape, dtype), Shaped(k.shape, dtype), Shaped(v.shape, dtype)


def _check_inputs(kernel_name: str, q: Spec, k: Spec, v: Spec, mask: Spec | None) -> DType:
    """Return the common dtype, or raise unless the shapes fit each other."""
    for which, x in {"q": q, "k": k, "v": v}.items():
        if len(x.shape) < 2:
            raise ShapeError(f"{which} has shape {x.shape}; it must have at least two axes")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ShapeError(
            f"q, k and v have shapes {q.shape}, {k.shape} and {v.shape}; all axes but the last two "
            "must be equal"
        )
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"q of shape {q.shape} and k of shape {k.shape} must have equal last axes")
    if k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"k of shape {k.shape} and v of shape {v.shape} must have equally many rows"
        )
    if mask is None:
        return check_same_dtype(kernel_name, q, k, v)
    weights = (*q.shape[:-1], k.shape[-2])
    fits = len(mask.shape) >= 2 and mask.shape[:-2] in ((), weights[:-2])
    if not fits or any(
        n not in (1, most) for n, most in zip(mask.shape[-2:], weights[-2:], strict=True)
    ):
        raise ShapeError(
            f"the mask has shape {mask.shape}; it must have the shape {weights} or {weights[-2:]}, in "
            "which the last two sizes may be 1"
        )
    return check_same_dtype(kernel_name, q, k, v, mask)
