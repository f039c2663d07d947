"""Loss functions."""

import numpy as np
import pytest
import scipy

import plugrad
from families.case import Case, ErrorCase
from families.domains import bools, integers, repeated_integers, uniform
from plugrad import losses
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError

REDUCTIONS = ["none", "sum", "mean", "sum_by_nonzero_weights"]


def reduce_losses(loss, weights=None, reduction="sum_by_nonzero_weights"):
    """Return the weighted losses, reduced as requested."""
    weights = np.broadcast_to(1.0 if weights is None else weights, loss.shape)
    if reduction == "none":
        return loss * weights
    total = np.sum(loss * weights)
    divisors = {
        "sum": 1,
        "mean": np.sum(weights),
        "sum_by_nonzero_weights": np.count_nonzero(weights),
    }
    return total / divisors[reduction] if divisors[reduction] else np.zeros_like(total)


def loss_reference(loss):
    """Return the reference of a loss, given a function that computes the loss of each element."""

    def reference(
        labels, predictions, weights=None, *, reduction="sum_by_nonzero_weights", **attrs
    ):
        return reduce_losses(loss(labels, predictions, **attrs), weights, reduction)

    return reference


@loss_reference
def np_absolute(y, x):
    return abs(y - x)


@loss_reference
def np_squared(y, x):
    return (y - x) ** 2


@loss_reference
def np_huber(y, x, delta=1.0):
    return scipy.special.huber(delta, y - x)


@loss_reference
def np_hinge(y, x):
    return np.maximum(1 - np.where(y > 0, 1, -1) * x, 0)


@loss_reference
def np_log_loss(y, x, epsilon=1e-7):
    return -y * np.log(x + epsilon) - (1 - y) * np.log(1 - x + epsilon)


@loss_reference
def np_cosine(y, x, axis=-1):
    return 1 - np.sum(y * x, axis=axis, keepdims=True)


@loss_reference
def np_sigmoid(y, x, label_smoothing=0.0):
    y = y * (1 - label_smoothing) + 0.5 * label_smoothing
    return -y * scipy.special.log_expit(x) - (1 - y) * scipy.special.log_expit(-x)


@loss_reference
def np_softmax(y, x, label_smoothing=0.0, axis=-1):
    y = y * (1 - label_smoothing) + label_smoothing / y.shape[axis]
    return -np.sum(y * scipy.special.log_softmax(x, axis=axis), axis=axis)


number, probability, label = uniform(-2, 2), uniform(0.1, 0.9), uniform(0, 1)
weight_domain = uniform(0.5, 2)
negative_numbers = uniform(
    -4, -2.5
)  # from the labels: absolute values have a kink where both are equal
LOSS_FUNCTIONS = [
    (losses.absolute_difference, np_absolute, number, negative_numbers, {}),
    (losses.mean_squared_error, np_squared, number, number, {}),
    (losses.huber_loss, np_huber, uniform(-0.2, 0.2), uniform(-0.7, 0.7), {}),
    (losses.huber_loss, np_huber, uniform(-0.2, 0.2), uniform(1, 3), {"delta": 0.5}),
    (losses.log_loss, np_log_loss, label, probability, {}),
    (losses.log_loss, np_log_loss, label, probability, {"epsilon": 0.01}),
    (losses.cosine_distance, np_cosine, number, number, {}),
    (losses.cosine_distance, np_cosine, number, number, {"axis": 0}),
    (losses.sigmoid_cross_entropy, np_sigmoid, label, number, {}),
    (losses.sigmoid_cross_entropy, np_sigmoid, label, number, {"label_smoothing": 0.2}),
    (losses.softmax_cross_entropy, np_softmax, label, number, {}),
    (losses.softmax_cross_entropy, np_softmax, label, number, {"axis": 0}),
    (losses.softmax_cross_entropy, np_softmax, label, number, {"label_smoothing": 0.1}),
    (
        *(losses.softmax_cross_entropy, np_softmax, label, number),
        {"label_smoothing": 0.3, "axis": 1},
    ),
]


def losses_shape(op, axis=-1):
    """Return the shape of the unreduced losses of (3, 4) labels; an axis of classes is reduced."""
    shape = [3, 4]
    if op is losses.cosine_distance:
        shape[axis] = 1
    if op is losses.softmax_cross_entropy:
        del shape[axis]
    return tuple(shape)


CASES = [
    Case(op, reference, [y, x], [(3, 4)] * 2, {**attrs, "reduction": reduction})
    for op, reference, y, x, attrs in LOSS_FUNCTIONS
    for reduction in REDUCTIONS
]
WEIGHTED_CASES = [
    Case(
        *(op, reference, [y, x, weight_domain]),
        [(3, 4), (3, 4), losses_shape(op, **{n: a for n, a in attrs.items() if n == "axis"})],
        {**attrs, "reduction": reduction},
        name=f"{op.__name__} {attrs} {reduction}",
    )
    for op, reference, y, x, attrs in LOSS_FUNCTIONS
    for reduction in REDUCTIONS
]
HINGE_CASES = [
    Case(
        losses.hinge_loss,
        np_hinge,
        [repeated_integers(0, 1), uniform(-0.9, 0.9)],
        attrs={"reduction": reduction},
    )
    for reduction in REDUCTIONS
]
COMPUTE_WEIGHTED_LOSS_CASES = [
    Case(
        *(losses.compute_weighted_loss, reduce_losses, [number, weight_domain], [(3, 4), shape]),
        {"reduction": reduction},
        name=f"compute_weighted_loss {shape} {reduction}",
    )
    for shape in [(3, 4), (4,), (3, 1), ()]
    for reduction in REDUCTIONS
]
ALL_CASES = [*CASES, *WEIGHTED_CASES, *COMPUTE_WEIGHTED_LOSS_CASES]


@pytest.mark.rows("case", [*ALL_CASES, *HINGE_CASES], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", ALL_CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", WEIGHTED_CASES[3::8], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("case", ALL_CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradient_of_hinge_loss(reduction, backend, rng):
    def lacking(x, **attrs):
        labels = plugrad.asarray([0, 1, 1], dtype="int32", device=x.device)
        return losses.hinge_loss(labels, x, **attrs)

    attrs = {"reduction": reduction}
    Case(lacking, lacking, [uniform(-0.9, 0.9)], [(3,)], attrs).check_gradient(rng, backend)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.rows("weights", [0.0, [0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 0.0, -1.0]])
def test_weights_that_are_zero(weights, reduction, backend):
    attrs = {"reduction": reduction}
    case = Case(losses.compute_weighted_loss, reduce_losses, [], attrs=attrs)
    case.check_values_of_arrays([np.array([1, 2, 4], "float32"), np.array(weights, "float32")])


def test_weights_that_cancel_give_a_mean_of_zero(backend):
    assert losses.compute_weighted_loss([1.0, 3.0], [1.0, -1.0], reduction="mean").item() == 0


@pytest.mark.parametrize("weights", [None, [1.0]])
@pytest.mark.parametrize("reduction", REDUCTIONS[1:])
def test_loss_of_an_empty_batch_is_zero(reduction, weights, backend):
    loss = losses.mean_squared_error(*[plugrad.zeros((0, 3))] * 2, weights, reduction=reduction)
    assert loss.item() == 0


def test_whole_numbers_and_bools_are_labels_and_weights(backend, rng):
    for labels in (integers(0, 1), bools()):
        case = Case(
            lambda y, x, w: losses.mean_squared_error(y, x, w),
            lambda y, x, w: np_squared(y * 1, x, w),
            [labels, uniform(-2, 2), integers(0, 2)],
        )
        y, x, w = case.draw(rng, "float32")
        case.check_values_of_arrays([y, x.astype("float32"), w])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_number_as_weight_takes_the_dtype_of_the_losses(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    x = plugrad.ones((3,), dtype=dtype)
    loss = losses.absolute_difference(x, 2 * x, 0.3, reduction="sum")
    assert loss.dtype == dtype
    assert loss.item() == plugrad.sum(0.3 * x).item()


@pytest.mark.parametrize("y", [0.0, 0.25, 1.0])
def test_sigmoid_cross_entropy_far_out_and_at_zero(y, backend):
    logits = np.array([-1e4, -30, -1e-4, 0, 1e-4, 30, 1e4], "float32")
    labels = np.full_like(logits, y)
    attrs = {"reduction": "none"}
    case = Case(losses.sigmoid_cross_entropy, np_sigmoid, [], attrs=attrs)
    case.check_values_of_arrays([labels, logits])
    slope = plugrad.grad(losses.sigmoid_cross_entropy, 1)(
        *map(plugrad.asarray, (labels, logits)), dy=plugrad.asarray(7.0)
    )
    np.testing.assert_allclose(slope.numpy(), scipy.special.expit(logits) - y, atol=1e-6)


def test_softmax_cross_entropy_of_large_logits(backend):
    labels, logits = np.eye(2, dtype="float32"), np.array([[1e4, -1e4], [1e4, 0]], "float32")
    case = Case(losses.softmax_cross_entropy, np_softmax, [], attrs={"reduction": "none"})
    case.check_values_of_arrays([labels, logits])


@pytest.mark.parametrize("loss", [losses.sigmoid_cross_entropy, losses.softmax_cross_entropy])
def test_labels_of_a_batch_have_a_gradient(loss, backend, rng):
    labels, logits = (rng.normal(size=(3, 4)).astype("float32") for _ in range(2))
    each = [
        plugrad.grad(lambda y, x=x: loss(y, x))(y).numpy()
        for y, x in zip(labels, logits, strict=True)
    ]
    for batched in (plugrad.vmap(loss), plugrad.jit(plugrad.vmap(loss))):
        found = plugrad.grad(lambda y, f=batched: plugrad.sum(f(y, logits)))(labels)
        np.testing.assert_allclose(found.numpy(), each, atol=1e-5)


def test_huber_loss_has_both_derivatives_at_zero(backend):
    slope = plugrad.grad(lambda x: losses.huber_loss([0.0], x))
    assert slope(plugrad.asarray([0.0])).tolist() == [0]
    curvature = plugrad.grad(lambda x: plugrad.sum(slope(x)))
    assert curvature(plugrad.asarray([0.0])).tolist() == [1]


a, b = [1.0, 2.0], [[1.0, 2.0]]
ERROR_CASES = [
    *(
        ErrorCase(lambda op=op: op(a, b), ShapeError, [op.__name__, "(2,)", "(1, 2)", "equal"])
        for op in (
            *(losses.absolute_difference, losses.mean_squared_error, losses.huber_loss),
            *(losses.hinge_loss, losses.log_loss, losses.cosine_distance),
            *(losses.sigmoid_cross_entropy, losses.softmax_cross_entropy),
        )
    ),
    ErrorCase(
        lambda: losses.mean_squared_error(a, a, reduction="average"),
        ArgumentValueError,
        ["reduction='average'", "'mean'"],
    ),
    ErrorCase(
        lambda: losses.mean_squared_error(a, a, [1.0, 2.0, 3.0]),
        ShapeError,
        ["weights", "(3,)", "(2,)"],
    ),
    ErrorCase(
        lambda: losses.compute_weighted_loss(a, b), ShapeError, ["weights", "(1, 2)", "(2,)"]
    ),
    ErrorCase(
        lambda: losses.huber_loss(a, a, delta=0), ArgumentValueError, ["delta=0", "positive"]
    ),
    ErrorCase(
        lambda: losses.sigmoid_cross_entropy(a, a, label_smoothing=2),
        ArgumentValueError,
        ["sigmoid_cross_entropy", "label_smoothing=2", "between 0 and 1"],
    ),
    ErrorCase(
        lambda: losses.softmax_cross_entropy(a, a, label_smoothing=-0.5),
        ArgumentValueError,
        ["softmax_cross_entropy", "label_smoothing=-0.5"],
    ),
    ErrorCase(lambda: losses.softmax_cross_entropy(a, a, axis=1), AxisError, ["axis=1"]),
    ErrorCase(lambda: losses.cosine_distance(a, a, axis=2), AxisError, ["axis=2"]),
    ErrorCase(lambda: losses.log_loss(["a"], ["b"]), DTypeError, ["log_loss", "string"]),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
