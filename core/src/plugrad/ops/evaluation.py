"""Functions that compare predicted classes with the right ones, made of other ops."""

from plugrad.errors import DTypeError, ShapeError
from plugrad.kernels import indexing, movement, sorting
from plugrad.ops.arguments import as_tensor, coerced
from plugrad.ops.attributes import whole
from plugrad.ops.binary import where
from plugrad.ops.creation import arange
from plugrad.ops.reduction import any, bincount, sum
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import bool_


def confusion_matrix(labels: TensorLike, predictions: TensorLike, num_classes: int) -> Tensor:
    """How often each class (a row) is taken for each class (a column), as int32.

    >>> plugrad.confusion_matrix([0, 1, 2, 1], [0, 2, 2, 1], num_classes=3)
    tensor([[1, 0, 0],
            [0, 1, 1],
            [0, 0, 1]], dtype=int32)

    Pairs with a class outside ``[0, num_classes)`` do not count.

    Raises:
        ArgumentValueError: the number of classes is not a whole number of at least 1.
        DTypeError: labels or predictions are not integers.
        ShapeError: labels and predictions are not two vectors of one length.
    """
    num_classes = whole(num_classes, "confusion_matrix", "num_classes", least=1)
    rows = _classes(labels, "confusion_matrix", "labels")
    columns = _classes(predictions, "confusion_matrix", "predictions")
    if rows.ndim != 1 or rows.shape != columns.shape:
        raise ShapeError(
            f"confusion_matrix: labels of shape {rows.shape} and predictions of shape "
            f"{columns.shape} must be two vectors of one length"
        )
    is_column = (columns >= 0) & (columns < num_classes)
    pairs = where(is_column, rows * num_classes + columns, -1)
    return bincount(pairs, size=num_classes**2).reshape(num_classes, num_classes)


def in_top_k(predictions: TensorLike, targets: TensorLike, k: int = 1) -> Tensor:
    """Whether the prediction for the right class is among the `k` largest.

    >>> plugrad.in_top_k([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]], [2, 2], k=2)
    tensor([ True, False], dtype=bool)

    Of equal predictions, the one for the lower class comes first, as in `argmax`; NaN is larger than
    any number, but is not among the largest itself. A class out of range gives False.

    Args:
        predictions: a number for each class, along the last axis.
        targets: the right class for each row: integers in the shape of the other axes.
        k: how many predictions count, from 1 to the number of classes.

    Raises:
        ShapeError: the targets do not fit the predictions, or these have less than 2 axes.
        DTypeError: the targets are not integers.
        ArgumentValueError: `k` is out of range.
    """
    x = coerced(predictions, sorting.top_k, "in_top_k", "predictions")
    classes = _classes(targets, "in_top_k", "targets")
    if x.ndim < 2 or x.shape[:-1] != classes.shape:
        raise ShapeError(
            f"in_top_k: predictions must have 2 or more axes, and targets the shape of all but the "
            f"last; the shapes are {x.shape} and {classes.shape}"
        )
    count = x.shape[-1]
    k = whole(k, "in_top_k", "k", least=1, most=count)
    is_right = indexing.one_hot(classes, depth=count, on_value=True, off_value=False, dtype=bool_)
    right = sum(where(is_right, x, 0), axis=-1, dtype=x.dtype, keepdims=True)
    comes_before = arange(count, device=x.backend) < movement.expand_dims(classes, dim=x.ndim - 1)
    is_better = ~(x <= right) | ((x == right) & comes_before)
    return (sum(is_better, axis=-1) < k) & any(is_right, axis=-1)


def _classes(x: TensorLike, op: str, name: str) -> Tensor:
    classes = as_tensor(x, op, name)
    if not classes.dtype.is_integer:
        raise DTypeError(
            f"{op}: {name} are {classes.dtype}; classes are integers, as after astype('int32')"
        )
    return classes
