"""Functions that compare predicted classes with the true ones, composed of other ops.

An argument that does not convert to a tensor raises ArgumentError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import DTypeError, ShapeError
from plugrad.kernels import indexing, movement, sorting
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast
from plugrad.ops.attributes import check_integer
from plugrad.ops.binary import where
from plugrad.ops.creation import arange
from plugrad.ops.reduction import any, bincount, sum
from plugrad.types.dtype import bool_, int32

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike


def confusion_matrix(labels: TensorLike, predictions: TensorLike, num_classes: int) -> Tensor:
    """The number of pairs of a label (the row) and a prediction (the column), as an int32 matrix.

    >>> plugrad.confusion_matrix([0, 1, 2, 1], [0, 2, 2, 1], num_classes=3)
    tensor([[1, 0, 0],
            [0, 1, 1],
            [0, 0, 1]], dtype=int32)

    The matrix has shape ``(num_classes, num_classes)``. Pairs with a class outside
    ``[0, num_classes)`` do not count.

    Args:
        labels: the right classes, a vector of integers.
        predictions: the predicted classes, a vector of integers of the same length.
        num_classes: the number of classes.

    Raises:
        ArgumentError: `num_classes` is not an integer.
        ArgumentValueError: `num_classes` is less than 1.
        DTypeError: labels or predictions are not integers.
        ShapeError: labels and predictions are not two vectors of one length.
    """
    num_classes = check_integer(num_classes, "confusion_matrix", "num_classes", least=1)
    rows = _as_class_indices(labels, num_classes, "confusion_matrix", "labels")
    columns = _as_class_indices(predictions, num_classes, "confusion_matrix", "predictions")
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise ShapeError(
            f"confusion_matrix: labels of shape {rows.shape} and predictions of shape "
            f"{columns.shape} must be two vectors of one length"
        )
    pairs = where((rows >= 0) & (columns >= 0), rows * num_classes + columns, -1)
    return bincount(pairs, size=num_classes**2).reshape(num_classes, num_classes)


def in_top_k(predictions: TensorLike, targets: TensorLike, k: int = 1) -> Tensor:
    """Whether the prediction for the right class is among the `k` largest, as bools.

    >>> plugrad.in_top_k([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]], [2, 2], k=2)
    tensor([ True, False], dtype=bool)

    The result has the shape of the targets. Among equal predictions, the one for the lower class
    comes first, as in `argmax`. NaN counts as larger than any number, but the result for it is
    False. A target that is not a class gives False.

    Args:
        predictions: a number for each class, along the last axis.
        targets: the right class for each row: integers in the shape of the other axes.
        k: how many predictions count, from 1 to the number of classes.

    Raises:
        ShapeError: the predictions have fewer than 2 axes, or the targets do not have their shape
            without the last axis.
        DTypeError: the targets are not integers, or the predictions hold bools, complex numbers or
            strings.
        ArgumentError: `k` is not an integer.
        ArgumentValueError: `k` is out of range.
    """
    x = as_supported_dtype(predictions, sorting.top_k, "in_top_k", "predictions")
    count = x.shape[-1] if x.ndim else 0
    classes = _as_class_indices(targets, count, "in_top_k", "targets")
    if x.ndim < 2 or x.shape[:-1] != classes.shape:
        raise ShapeError(
            f"in_top_k: predictions must have 2 or more axes, and targets the shape of all but the "
            f"last; the shapes are {x.shape} and {classes.shape}"
        )
    k = check_integer(k, "in_top_k", "k", least=1, most=count)
    is_right = indexing.one_hot(classes, depth=count, on_value=True, off_value=False, dtype=bool_)
    right = sum(where(is_right, x, 0), axis=-1, dtype=x.dtype, keepdims=True)
    comes_before = arange(count, device=x.backend) < movement.expand_dims(classes, dim=x.ndim - 1)
    is_better = ~(x <= right) | ((x == right) & comes_before)
    return (sum(is_better, axis=-1) < k) & any(is_right, axis=-1)


def _as_class_indices(x: TensorLike, class_count: int, op: str, argument_name: str) -> Tensor:
    """Return class numbers as int32; numbers outside ``[0, class_count)`` become -1.

    Raises:
        DTypeError: they are not integers.
    """
    classes = as_tensor(x, op, argument_name)
    if not classes.dtype.is_integer:
        raise DTypeError(
            f"{op}: {argument_name} are {classes.dtype}; classes are integers, as after astype('int32')"
        )
    if classes.dtype.itemsize < int32.itemsize:
        classes = cast(classes, int32)  # `count` may not fit a smaller dtype
    is_class = (classes >= 0) & (classes < class_count)
    return where(is_class, cast(classes, int32), -1)
