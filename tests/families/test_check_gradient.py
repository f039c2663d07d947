"""The check of gradients fails when it should, and says where."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError
from plugrad.kernels import binary, unary
from plugrad.testing import check_gradient


def test_right_gradients_pass(backend):
    check_gradient(plugrad.tanh, [0.5, -1.0], order=3)
    check_gradient(lambda x, y: plugrad.sum(x * y), [[0.5, -1.0]], [[2.0], [3.0]])
    check_gradient(lambda x, i: plugrad.take(x, i), [0.5, -1.0, 2.0], [0, 2, 2])


def test_a_wrong_rule_is_named_with_its_argument_and_element(backend):
    wrong = {"a": lambda dy: dy, "b": lambda dy: -dy * plugrad.asarray([1.0, 1.01])}
    message = (
        r"gradient of subtract of order 1 for argument 1 of shape \(2,\): .*the rules give .* and "
        r"finite differences .*they differ by .*Element \(1,\) is furthest off"
    )
    with (
        plugrad.override_gradient(binary.subtract, **wrong),
        pytest.raises(AssertionError, match=message),
    ):
        check_gradient(plugrad.subtract, [0.5, -1.0], [2.0, 3.0], dtype="float32")


def test_a_rule_that_is_a_constant_is_wrong_at_the_second_order(backend):
    with plugrad.override_gradient(unary.square, x=lambda dy, x: dy * 2 * plugrad.stop_gradient(x)):
        check_gradient(plugrad.square, [0.5, -1.0], order=1)
        with pytest.raises(AssertionError, match=r"gradient of square of order 2 for argument 0"):
            check_gradient(plugrad.square, [0.5, -1.0])


def test_a_rule_that_forgets_dy_is_wrong_though_the_function_is_linear(backend):
    with (
        plugrad.override_gradient(unary.negative, x=lambda dy: -plugrad.stop_gradient(dy)),
        pytest.raises(AssertionError, match=r"of order 2"),
    ):
        check_gradient(plugrad.negative, [0.5, -1.0])


def test_a_missing_part_of_the_gradient_is_wrong(backend):
    with pytest.raises(AssertionError, match=r"the rules give 0 "):
        check_gradient(lambda x: plugrad.stop_gradient(x), [0.5, -1.0])


def test_nan_is_wrong(backend):
    with (
        plugrad.override_gradient(unary.negative, x=lambda dy: dy * np.nan),
        pytest.raises(AssertionError, match=r"the rules give nan"),
    ):
        check_gradient(plugrad.negative, [0.5, -1.0])


def test_tolerance_and_step_can_be_chosen(backend):
    def kinked(x):
        return plugrad.abs(x)

    check_gradient(kinked, [0.05], eps=0.005)
    with pytest.raises(AssertionError):
        check_gradient(kinked, [0.05], eps=0.1)
    check_gradient(kinked, [0.05], eps=0.1, rtol=10)


def test_bad_arguments(backend):
    with pytest.raises(ArgumentError, match="none of the 1 arguments is floating"):
        check_gradient(plugrad.negative, [1, 2])
    with pytest.raises(ArgumentError, match="must return one tensor, not list"):
        check_gradient(lambda x: [x], [1.0])
    with pytest.raises(ArgumentValueError, match="order=0 must be 1 or more"):
        check_gradient(plugrad.negative, [1.0], order=0)
    with pytest.raises(ArgumentValueError, match="dtype=int32 must be float64 or float32"):
        check_gradient(plugrad.negative, [1.0], dtype="int32")
