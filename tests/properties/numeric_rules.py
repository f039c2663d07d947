"""The rules for extreme numbers: calls, their values by NumPy's rules, and why a backend differs.

Calls and values are Python expressions, so that the page shows what was run.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import plugrad
from plugrad.errors import ArgumentValueError, KernelNotFound, TensorIndexError, UnsupportedDtype
from plugrad.testing.tables import rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.contract.kernel import Kernel

BACKENDS = ("cpu", "wasm", "webgpu")
ABSENT = "–"


class Difference(NamedTuple):
    """The result of a call on some backends that differs, and the reason."""

    backends: tuple[str, ...]
    value: str
    reason: str


class Rule(NamedTuple):
    """A call and its result on all backends, apart from a difference."""

    call: str
    value: str
    within: float = 0.0  # the relative error; without one, values and the signs of zeros are equal
    difference: Difference | None = None

    def expected_on(self, backend: str) -> str:
        """Return the expression of the expected value on a backend."""
        if self.difference and backend in self.difference.backends:
            return self.difference.value
        return self.value


class Section(NamedTuple):
    """Rules about one subject, with a text that states them in general."""

    title: str
    text: str
    rules: list[Rule]


def with_debug(function: Callable[[], Any]) -> Any:
    """Return the result of a function with the setting ``debug`` on."""
    with plugrad.config.override("debug", True):
        return function()


def signed_zero_rules(*names: str) -> list[Rule]:
    """Return the rules of functions that return each signed zero unchanged."""
    return [Rule(f"plugrad.{name}(zeros)", "zeros") for name in names]


def out_of_range_rule(call: str, value: str) -> Rule:
    """Return the rule of out-of-range indices: an error, or a value on backends that do not check them."""
    reason = "The positions are on the device, and the host does not wait for them."
    return Rule(call, "TensorIndexError", difference=Difference(("wasm", "webgpu"), value, reason))


OVERFLOW = Difference(
    ("webgpu",),
    "nan",
    "The difference from the first element overflows, and not only its square.",
)

SECTIONS = [
    Section(
        "The sign of zero",
        "Odd functions and roundings keep it; other functions give 0, not -0. Of two zeros, `maximum`, "
        "`minimum`, `max` and `min` give the second one.",
        [
            *signed_zero_rules(
                "positive", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh"
            ),
            *signed_zero_rules(
                "expm1", "log1p", "erf", "sqrt", "round", "trunc", "ceil", "floor", "elu", "selu"
            ),
            Rule("plugrad.leaky_relu(zeros)", "zeros"),
            Rule("plugrad.negative(zeros)", "-zeros"),
            Rule("plugrad.sign(zeros)", "[0.0, 0.0]"),
            Rule("plugrad.abs(zeros)", "[0.0, 0.0]"),
            Rule("plugrad.square(zeros)", "[0.0, 0.0]"),
            Rule("plugrad.reciprocal(zeros)", "[inf, -inf]"),
            Rule("plugrad.rsqrt(zeros)", "[inf, -inf]"),
            Rule("plugrad.relu(zeros)", "[0.0, 0.0]"),
            Rule("plugrad.relu6(zeros)", "[0.0, 0.0]"),
            Rule("plugrad.step(zeros)", "[0.0, 0.0]"),
            Rule("plugrad.acosh([1.0])", "[0.0]"),
            Rule("plugrad.log([1.0])", "[0.0]"),
            Rule("plugrad.log2([1.0])", "[0.0]"),
            Rule("plugrad.log10([1.0])", "[0.0]"),
            Rule("plugrad.acos([1.0])", "[0.0]"),
            Rule("plugrad.round([-0.5, 0.5, -0.2])", "[-0.0, 0.0, -0.0]"),
            Rule("plugrad.trunc([-0.5, 0.5])", "[-0.0, 0.0]"),
            Rule("plugrad.ceil([-0.5])", "[-0.0]"),
            Rule("plugrad.signbit(zeros)", "[False, True]"),
            Rule("plugrad.equal(zeros, -zeros)", "[True, True]"),
            Rule("plugrad.add(zeros, zeros)", "zeros"),
            Rule("plugrad.add(zeros, -zeros)", "[0.0, 0.0]"),
            Rule("plugrad.subtract(zeros, zeros)", "[0.0, 0.0]"),
            Rule("plugrad.multiply(zeros, -2.0)", "-zeros"),
            Rule("plugrad.divide(zeros, -2.0)", "-zeros"),
            Rule("plugrad.floor_divide(zeros, 2.0)", "zeros"),
            Rule("plugrad.floor_divide(zeros, -2.0)", "[-0.0, 0.0]"),
            Rule("plugrad.floor_divide(zeros, -1e-30)", "[-0.0, 0.0]"),
            Rule("plugrad.floor_divide(-1.0, [-1e30, -inf])", "[0.0, 0.0]"),
            Rule("plugrad.floor_divide(zeros, [inf, -inf])", "[0.0, 0.0]"),
            Rule("plugrad.floor_divide(zeros, [-inf, inf])", "[-0.0, -0.0]"),
            Rule("plugrad.remainder(zeros, 2.0)", "[0.0, 0.0]"),
            Rule("plugrad.remainder(zeros, -2.0)", "[-0.0, -0.0]"),
            Rule("plugrad.remainder(zeros, inf)", "[0.0, 0.0]"),
            Rule("plugrad.remainder(zeros, -inf)", "[-0.0, -0.0]"),
            Rule("plugrad.remainder([4.0, -4.0], 2.0)", "[0.0, 0.0]"),
            Rule("plugrad.remainder([4.0, -4.0], -2.0)", "[-0.0, -0.0]"),
            Rule("plugrad.maximum(zeros, -zeros)", "-zeros"),
            Rule("plugrad.minimum(zeros, -zeros)", "-zeros"),
            Rule("plugrad.max(zeros)", "-0.0"),
            Rule("plugrad.max(-zeros)", "0.0"),
            Rule("plugrad.min(zeros)", "-0.0"),
            Rule("plugrad.min(-zeros)", "0.0"),
            Rule("plugrad.sum([-0.0, -0.0])", "0.0"),
            Rule("plugrad.mean([-0.0, -0.0])", "0.0"),
            Rule("plugrad.atan2(zeros, 1.0)", "zeros"),
            Rule("plugrad.atan2(zeros, -1.0)", "[np.pi, -np.pi]", 1e-6),
            Rule("plugrad.atan2(zeros, -0.0)", "[np.pi, -np.pi]", 1e-6),
            Rule("plugrad.copysign(1.0, zeros)", "[1.0, -1.0]"),
            Rule("plugrad.nextafter(zeros, -zeros)", "-zeros"),
            Rule("plugrad.pow(zeros, 3.0)", "zeros"),
            Rule("plugrad.pow(zeros, 2.0)", "[0.0, 0.0]"),
            Rule("plugrad.pow(zeros, -1.0)", "[inf, -inf]"),
            Rule("plugrad.logaddexp(zeros, -inf)", "[0.0, 0.0]"),
        ],
    ),
    Section(
        "Sums, averages and variances",
        "Long sums do not lose small terms, and the variance of equal numbers is 0.",
        [
            Rule("plugrad.var(plugrad.full((100_000,), 1e8))", "0.0"),
            Rule("plugrad.var(plugrad.full((1000, 300), 1e8), axis=0)", "np.zeros(300)"),
            Rule("plugrad.std(plugrad.full((100_000,), 0.1))", "0.0"),
            Rule("plugrad.moments(plugrad.full((100_000,), 1e8))[1]", "0.0"),
            Rule("plugrad.moments(plugrad.full((100_000,), 1e8))[0]", "1e8", 1e-6),
            Rule("plugrad.var([1e8, 1e8 + 8, 1e8 + 16])", "np.var([0.0, 8, 16])", 1e-6),
            Rule("plugrad.var([1e6, 1e6 + 1] * 10_000)", "0.25", 1e-6),
            Rule("plugrad.var([1e30, 1e30])", "0.0"),
            Rule("plugrad.var([3e38, -3e38])", "inf", difference=OVERFLOW),
            Rule("plugrad.var([inf, 1.0])", "nan"),
            Rule("plugrad.var([1.0], correction=1)", "nan"),
            Rule("plugrad.mean(plugrad.zeros((0,)))", "nan"),
            Rule("plugrad.sum(plugrad.full((30_000_000,), 0.1))", "3e6", 1e-6),
            Rule("plugrad.mean(plugrad.full((30_000_000,), 0.1))", "0.1", 1e-6),
            Rule("plugrad.sum(plugrad.full((3_000_000, 4), 0.1), axis=0)", "[3e5] * 4", 1e-6),
            Rule("plugrad.sum(plugrad.full((4, 3_000_000), 0.1), axis=1)", "[3e5] * 4", 1e-6),
            Rule("plugrad.cumulative_sum(plugrad.ones((20_000_000,)))[-1]", "2e7"),
            Rule("plugrad.cumulative_sum(plugrad.full((3_000_000,), 0.1))[-1]", "3e5", 1e-6),
            Rule("plugrad.cumulative_sum(plugrad.ones((20_000_000, 1)), axis=0)[-1]", "[2e7]"),
            Rule("plugrad.cumulative_sum([inf, 1.0, -inf, 1.0])", "[inf, inf, nan, nan]"),
            Rule("plugrad.sum([inf, -inf])", "nan"),
            Rule("plugrad.sum(plugrad.zeros((0,)))", "0.0"),
            Rule("plugrad.prod(plugrad.zeros((0,)))", "1.0"),
        ],
    ),
    Section(
        "Norms",
        "Squares that overflow or vanish do not show in the norm.",
        [
            Rule("plugrad.linalg.vector_norm([3e30, 4e30])", "5e30", 1e-6),
            Rule("plugrad.linalg.vector_norm([3e-30, 4e-30])", "5e-30", 1e-6),
            Rule("plugrad.linalg.norm([[3e30, 4e30]])", "5e30", 1e-6),
            Rule("plugrad.linalg.norm([[3e-30, 4e-30]], axis=(0, 1))", "5e-30", 1e-6),
            Rule("plugrad.linalg.matrix_norm([[3e30, 4e30]])", "5e30", 1e-6),
            Rule("plugrad.linalg.vector_norm([3e30, 4e30], ord=3)", "91 ** (1 / 3) * 1e30", 1e-6),
            Rule(
                "plugrad.linalg.vector_norm([3e-30, 4e-30], ord=3)", "91 ** (1 / 3) * 1e-30", 1e-6
            ),
            Rule("plugrad.euclidean_norm([3e30, 4e30])", "5e30", 1e-6),
            Rule("plugrad.euclidean_norm([3e-30, 4e-30])", "5e-30", 1e-6),
            Rule("plugrad.euclidean_norm([[3e30, 4e30], [0.0, 0.0]], axis=1)", "[5e30, 0.0]", 1e-6),
            Rule("plugrad.euclidean_norm([inf, 1.0])", "inf"),
            Rule("plugrad.euclidean_norm([nan, 1.0])", "nan"),
            Rule("plugrad.euclidean_norm(plugrad.zeros((0,)))", "0.0"),
            Rule("plugrad.hypot([3e30, 3e-30], [4e30, 4e-30])", "[5e30, 5e-30]", 1e-6),
            Rule("plugrad.hypot([inf, nan], [nan, inf])", "[inf, inf]"),
            Rule("plugrad.abs([3e30 + 4e30j, 3e-30 + 4e-30j])", "[5e30, 5e-30]", 1e-6),
            Rule(
                "plugrad.optimizers.clip_by_global_norm([plugrad.asarray([3e30, 4e30])], 1.0)[0]",
                "[0.6, 0.8]",
                1e-6,
            ),
            Rule(
                "plugrad.grad(plugrad.euclidean_norm)(plugrad.asarray([3e30, 4e30]))",
                "[0.6, 0.8]",
                1e-6,
            ),
            Rule(
                "plugrad.grad(plugrad.euclidean_norm)(plugrad.asarray([3e-30, 4e-30]))",
                "[0.6, 0.8]",
                1e-6,
            ),
            Rule(
                "plugrad.grad(plugrad.linalg.vector_norm)(plugrad.asarray([3e-30, 4e-30]))",
                "[0.6, 0.8]",
                1e-6,
            ),
            Rule(
                "plugrad.grad(plugrad.linalg.vector_norm)(plugrad.asarray([0.0, 0.0]))",
                "[0.0, 0.0]",
            ),
        ],
    ),
    Section(
        "Overflow, infinity and what is not defined",
        "Results out of range are infinite or 0; what has no value is NaN. No error is raised. The sign and "
        "the bits of a NaN carry no meaning: they may differ between backends, and between a traced and an "
        "untraced call.",
        [
            Rule("plugrad.divide([1.0, -1.0, 0.0], 0.0)", "[inf, -inf, nan]"),
            Rule("plugrad.subtract(inf, [inf, 1.0])", "[nan, inf]"),
            Rule("plugrad.multiply([inf, 1e30], [0.0, 1e30])", "[nan, inf]"),
            Rule("plugrad.pow([0.0, 1.0, nan, inf], 0.0)", "[1.0, 1.0, 1.0, 1.0]"),
            Rule("plugrad.pow(1.0, [inf, -inf, nan])", "[1.0, 1.0, 1.0]"),
            Rule("plugrad.pow([-8.0, -2.0], [1 / 3, 3.0])", "[nan, -8.0]"),
            Rule("plugrad.exp([89.0, -104.0, inf, -inf])", "[inf, 0.0, inf, 0.0]"),
            Rule("plugrad.log([0.0, -0.0, -1.0, inf])", "[-inf, -inf, nan, inf]"),
            Rule("plugrad.log1p([-1.0, -2.0])", "[-inf, nan]"),
            Rule("plugrad.sqrt([-1.0, inf])", "[nan, inf]"),
            Rule("plugrad.sin([inf, -inf])", "[nan, nan]"),
            *[
                Rule(
                    f"plugrad.{name}(np.float32([1e5, 1e10, 1e30]))",
                    f"np.{name}(np.float64(np.float32([1e5, 1e10, 1e30])))",
                    1e-6,
                )
                for name in ("sin", "cos", "tan")
            ],
            Rule("plugrad.asin([2.0, -2.0])", "[nan, nan]"),
            Rule("plugrad.atanh([1.0, -1.0, 2.0])", "[inf, -inf, nan]"),
            Rule("plugrad.acosh([0.5, inf])", "[nan, inf]"),
            Rule("plugrad.sinh([89.0, 90.0])", "[np.sinh(89.0), inf]", 1e-5),
            Rule("plugrad.tanh([100.0, -inf])", "[1.0, -1.0]"),
            Rule("plugrad.sigmoid([-1000.0, 1000.0])", "[0.0, 1.0]"),
            Rule("plugrad.softplus([-1000.0, 1000.0])", "[0.0, 1000.0]"),
            Rule("plugrad.log_sigmoid([-1000.0, 1000.0])", "[-1000.0, -0.0]"),
            Rule("plugrad.logaddexp(-inf, [-inf, 0.0, inf])", "[-inf, 0.0, inf]"),
            Rule("plugrad.log_sum_exp([1000.0, 1000.0])", "1000 + np.log(2)", 1e-6),
            Rule("plugrad.log_sum_exp([-1000.0, -1000.0])", "np.log(2) - 1000", 1e-6),
            Rule("plugrad.log_sum_exp([-inf, -inf])", "-inf"),
            Rule("plugrad.log_sum_exp([inf, 0.0])", "inf"),
            Rule("plugrad.softmax([1000.0, 0.0])", "[1.0, 0.0]"),
            Rule("plugrad.softmax([-inf, 0.0])", "[0.0, 1.0]"),
            Rule("plugrad.softmax([-inf, -inf])", "[nan, nan]"),
            Rule("plugrad.softmax([inf, 0.0])", "[nan, nan]"),
            Rule("plugrad.softmax([nan, 0.0])", "[nan, nan]"),
            Rule("plugrad.log_softmax([1000.0, 0.0])", "[0.0, -1000.0]"),
            Rule("plugrad.log_softmax([-inf, 0.0])", "[-inf, 0.0]"),
            Rule("plugrad.log_softmax([-inf, -inf])", "[nan, nan]"),
            Rule("plugrad.floor_divide([1.0, inf], [0.0, 2.0])", "[inf, nan]"),
            Rule("plugrad.remainder([1.0, inf, -1.0], [0.0, 2.0, inf])", "[nan, nan, inf]"),
            Rule("plugrad.multiply([1e-20], 1e-25)", "[np.float32(1e-45)]"),
            Rule("plugrad.nextafter([0.0], 1.0)", "[np.float32(1e-45)]"),
        ],
    ),
    Section(
        "NaN",
        "Results keep it, comparisons with it are False, and in an order it is the largest number.",
        [
            Rule("plugrad.max([1.0, nan, inf])", "nan"),
            Rule("plugrad.min([1.0, nan, -inf])", "nan"),
            Rule("plugrad.maximum([nan, 1.0], [1.0, nan])", "[nan, nan]"),
            Rule("plugrad.minimum([nan, 1.0], [1.0, nan])", "[nan, nan]"),
            Rule("plugrad.argmax([1.0, nan, inf, nan])", "1"),
            Rule("plugrad.argmin([1.0, nan, -inf, nan])", "1"),
            Rule("plugrad.argmax([1.0, 2.0, 2.0])", "1"),
            Rule("plugrad.sort([nan, 1.0, inf, -inf])", "[-inf, 1.0, inf, nan]"),
            Rule("plugrad.argsort([nan, 1.0, nan, 0.0])", "[3, 1, 0, 2]"),
            Rule("plugrad.top_k([1.0, nan, 2.0], 2)[0]", "[nan, 2.0]"),
            Rule("plugrad.clip([nan, inf, -inf], -1.0, 1.0)", "[nan, 1.0, -1.0]"),
            Rule("plugrad.sign([nan, inf, -inf])", "[nan, 1.0, -1.0]"),
            Rule("plugrad.relu([nan, inf, -inf])", "[nan, inf, 0.0]"),
            Rule("plugrad.relu6([nan, inf, -inf])", "[nan, 6.0, 0.0]"),
            Rule("plugrad.elu([nan, inf, -inf])", "[nan, inf, -1.0]"),
            Rule("plugrad.leaky_relu([nan, inf, -inf])", "[nan, inf, -inf]"),
            Rule("plugrad.step([nan, inf, -inf])", "[nan, 1.0, 0.0]"),
            Rule("plugrad.round([nan, inf, -inf])", "[nan, inf, -inf]"),
            Rule("plugrad.equal([nan, inf], [nan, inf])", "[False, True]"),
            Rule("plugrad.not_equal([nan, inf], [nan, inf])", "[True, False]"),
            Rule("plugrad.less([nan, 1.0], [1.0, nan])", "[False, False]"),
            Rule("plugrad.greater_equal([nan, 1.0], [1.0, nan])", "[False, False]"),
            Rule("plugrad.isfinite([nan, inf, 1e38])", "[False, False, True]"),
            Rule("plugrad.count_nonzero([nan, 0.0, -0.0])", "1"),
            Rule("plugrad.div_no_nan([1.0, nan], 0.0)", "[0.0, 0.0]"),
            Rule("plugrad.max_pool([[[[1.0], [nan]]]], (1, 2), 1, 'valid')", "[[[[nan]]]]"),
        ],
    ),
    Section(
        "Casts",
        "Fractions are cut off, numbers out of range become the nearest limit, and NaN becomes 0. "
        "Integers wrap around. Every number but 0 is True, NaN too.",
        [
            Rule("plugrad.asarray([1.9, -1.9, nan]).astype('int32')", "[1, -1, 0]"),
            Rule(
                "plugrad.asarray([1e30, -1e30, inf, -inf]).astype('int32')",
                "[2**31 - 1, -(2**31)] * 2",
            ),
            Rule("plugrad.asarray([1e30, -1.0, nan]).astype('uint32')", "[2**32 - 1, 0, 0]"),
            Rule("plugrad.asarray([300.0, -300.0, nan]).astype('int8')", "[127, -128, 0]"),
            Rule("plugrad.asarray([300.0, -1.0, nan]).astype('uint8')", "[255, 0, 0]"),
            Rule("plugrad.asarray([1e30, -1e30, nan]).astype('int64')", "[2**63 - 1, -(2**63), 0]"),
            Rule("plugrad.asarray([-1, 2**31 - 1]).astype('uint32')", "[2**32 - 1, 2**31 - 1]"),
            Rule("plugrad.asarray([300, -1]).astype('int8')", "[44, -1]"),
            Rule("plugrad.asarray([nan, 0.5, -0.0]).astype('bool')", "[True, True, False]"),
            Rule("plugrad.asarray([2**24 + 1]).astype('float32')", "[2.0**24]"),
            Rule("plugrad.asarray([1e39, 1e-50], dtype='float64').astype('float32')", "[inf, 0.0]"),
            Rule("plugrad.asarray([70000.0]).astype('float16')", "[inf]"),
            Rule("plugrad.asarray([1e10], dtype='int32')", "ArgumentValueError"),
        ],
    ),
    Section(
        "Integers",
        "They wrap around, and a division by 0 gives 0. A negative exponent gives the reciprocal "
        "without its fraction: 1 or -1 for these two bases, else 0.",
        [
            Rule("plugrad.add([2**31 - 1], 1)", "[-(2**31)]"),
            Rule("plugrad.multiply([2**30], 4)", "[0]"),
            Rule("plugrad.negative([-(2**31)])", "[-(2**31)]"),
            Rule("plugrad.abs([-(2**31)])", "[-(2**31)]"),
            Rule("plugrad.sum([2**31 - 1, 1])", "-(2**31)"),
            Rule("plugrad.floor_divide([7, -7, 0], 0)", "[0, 0, 0]"),
            Rule("plugrad.remainder([7, -7, 0], 0)", "[0, 0, 0]"),
            Rule("plugrad.floor_divide([-(2**31)], -1)", "[-(2**31)]"),
            Rule("plugrad.remainder([-(2**31)], -1)", "[0]"),
            Rule("plugrad.floor_divide([7, -7], [-2, 2])", "[-4, -4]"),
            Rule("plugrad.remainder([7, -7], [-2, 2])", "[-1, 1]"),
            Rule("plugrad.divide([1, -1, 0], 0)", "[inf, -inf, nan]"),
            Rule(
                "plugrad.pow([1, -1, -1, 2, -2, 0], [-3, -3, -2, -1, -1, -1])",
                "[1, -1, 1, 0, 0, 0]",
            ),
            Rule("plugrad.pow([1, -1, 2, 0], -1)", "[1, -1, 0, 0]"),
            Rule("plugrad.pow(2, [-1, 0, 31, 32])", "[0, 1, -(2**31), 0]"),
            Rule("plugrad.pow([0], 0)", "[1]"),
            Rule("plugrad.bitwise_left_shift([1], [40])", "[0]"),
            Rule("plugrad.bitwise_right_shift([-5, 5], [40, 40])", "[-1, 0]"),
            Rule("plugrad.mean([2**31 - 1, 2**31 - 1])", "2.0**31", 1e-6),
        ],
    ),
    Section(
        "Positions",
        "A negative position counts from the end. One out of range raises an error if the host sees "
        "it: in a list or an array, or on the cpu backend. In a tensor on another device, it reads 0 "
        "and writes nothing; with the setting `debug`, it raises there, too. `one_hot` and segments "
        "have no element for such an index, on every backend.",
        [
            Rule("plugrad.take([1.0, 2.0], [-1, 0])", "[2.0, 1.0]"),
            Rule("plugrad.take([1.0, 2.0], [2])", "TensorIndexError"),
            Rule("plugrad.take([1.0, 2.0], [-3])", "TensorIndexError"),
            Rule("plugrad.take([1.0, 2.0], [2**40])", "ArgumentValueError"),
            Rule("plugrad.take_along_axis([1.0, 2.0], [2])", "TensorIndexError"),
            Rule("plugrad.gather_nd([1.0, 2.0], [[2]])", "TensorIndexError"),
            Rule("plugrad.asarray([1.0, 2.0])[2]", "TensorIndexError"),
            Rule("plugrad.scatter_nd([[2]], [1.0], (2,))", "TensorIndexError"),
            Rule("plugrad.tensor_scatter_update([1.0, 2.0], [[2]], [1.0])", "TensorIndexError"),
            Rule("plugrad.sparse_to_dense([2], [1.0], (2,))", "TensorIndexError"),
            Rule("plugrad.sparse.sparse_segment_sum([1.0], [1], [0])", "TensorIndexError"),
            out_of_range_rule(
                "plugrad.take([1.0, 2.0], plugrad.asarray([0, 2, -3]))", "[1.0, 0.0, 0.0]"
            ),
            out_of_range_rule(
                "plugrad.take_along_axis([1.0, 2.0], plugrad.asarray([0, 2]))", "[1.0, 0.0]"
            ),
            out_of_range_rule("plugrad.asarray([1.0, 2.0])[plugrad.asarray([0, 2])]", "[1.0, 0.0]"),
            out_of_range_rule(
                "plugrad.gather_nd([1.0, 2.0], plugrad.asarray([[2], [1]]))", "[0.0, 2.0]"
            ),
            out_of_range_rule(
                "plugrad.scatter_nd(plugrad.asarray([[2]]), [1.0], (2,))", "[0.0, 0.0]"
            ),
            out_of_range_rule(
                "plugrad.tensor_scatter_update([1.0, 2.0], plugrad.asarray([[2], [-3]]), [3.0, 4.0])",
                "[1.0, 2.0]",
            ),
            out_of_range_rule(
                "plugrad.sparse_to_dense(plugrad.asarray([-3, 1]), [1.0, 2.0], (2,))",
                "[0.0, 2.0]",
            ),
            Rule(
                "checked(lambda: plugrad.take([1.0, 2.0], plugrad.asarray([2])))",
                "TensorIndexError",
            ),
            Rule(
                "checked(lambda: plugrad.take_along_axis([1.0, 2.0], plugrad.asarray([2])))",
                "TensorIndexError",
            ),
            *[
                Rule(f"checked(lambda: plugrad.{call})", "TensorIndexError")
                for call in (
                    "gather_nd([1.0, 2.0], plugrad.asarray([[2]]))",
                    "scatter_nd(plugrad.asarray([2]), [1.0], (2,))",
                    "tensor_scatter_update([[1.0]], plugrad.asarray([[0, -2]]), [2.0])",
                    "sparse_to_dense(plugrad.asarray(2), 1.0, (2,))",
                )
            ],
            Rule("plugrad.one_hot([0, 2, -1], 2)", "[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]"),
            Rule("plugrad.unsorted_segment_sum([1.0, 2.0, 4.0], [0, 2, -1], 2)", "[1.0, 0.0]"),
            Rule("plugrad.bincount([0, 5, 1], size=2)", "[1, 1]"),
        ],
    ),
]

RULES = [rule for section in SECTIONS for rule in section.rules]
NAMES: dict[str, Any] = {
    "np": np,
    "plugrad": plugrad,
    "inf": np.inf,
    "nan": np.nan,
    "zeros": np.float32([0.0, -0.0]),
    "checked": with_debug,
    "TensorIndexError": TensorIndexError,
    "ArgumentValueError": ArgumentValueError,
}


def evaluate(expression: str) -> Any:
    """Return the value of an expression, as an array unless it is a class."""
    found = eval(expression, dict(NAMES))
    return found if isinstance(found, type) else np.asarray(found)


@cache
def run_rule(rule: Rule, backend: str) -> Any:
    """Return the result of a rule's call on a backend: an array, an error class, or `ABSENT`."""
    with plugrad.use(backend), plugrad.config.override("unsupported_dtype", "error"):
        try:
            return eval(rule.call, dict(NAMES)).numpy()
        except (KernelNotFound, UnsupportedDtype):
            return ABSENT
        except (TensorIndexError, ArgumentValueError) as error:
            return type(error)


# --- the same rules for many elements -------------------------------------------------------------

REPETITIONS = 301
"""How often elements are repeated, so that native code runs, whole vectors of it and a rest."""


@cache
def elementwise_ops() -> set[str]:
    """Return the names of the elementwise ops, and `asarray`, which makes their inputs."""
    found = {"asarray"}
    for row in rows():
        if row.kernel.is_elementwise:
            found |= {op_name_of_kernel(row.kernel), getattr(row.op, "__name__", "asarray")}
    return found & set(dir(plugrad))


def op_name_of_kernel(kernel: Kernel[..., Any]) -> str:
    """Return the name of the op of a kernel."""
    family = import_module(f"plugrad.kernels.{kernel.family}")
    return next(name for name, value in vars(family).items() if value is kernel)


class RepeatingNamespace:
    """A stand-in for plugrad, whose elementwise ops get inputs with their elements repeated."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = getattr(plugrad, name)
        return lambda *xs, **options: op(*map(repeat_elements, xs), **options)


def repeat_elements(x: Any) -> Any:
    """Return a list or a 1-d array with its elements repeated; other values unchanged."""
    return (
        np.tile(narrow_list(x), REPETITIONS)
        if isinstance(x, list | np.ndarray) and np.ndim(x) == 1
        else x
    )


def narrow_list(x: Any) -> Any:
    """Return a list as plugrad converts it: Python numbers become int32 and float32."""
    return plugrad.asarray(x).numpy() if isinstance(x, list) else x


def is_elementwise(rule: Rule) -> bool:
    """Return whether a rule is about elementwise ops of 1-d inputs."""
    names = re.findall(r"plugrad\.(\w+)", rule.call)
    return set(names) <= elementwise_ops() and np.ndim(evaluate(rule.value)) == 1


def run_rule_on_many_elements(rule: Rule, backend: str) -> Any:
    """Return the result of a rule's call for repeated elements, or `ABSENT`."""
    with plugrad.use(backend), plugrad.config.override("unsupported_dtype", "error"):
        try:
            return eval(rule.call, {**NAMES, "plugrad": RepeatingNamespace()}).numpy()
        except (KernelNotFound, UnsupportedDtype):
            return ABSENT


def results_agree(actual: Any, expected: Any, within: float) -> bool:
    """Whether two results are equal: NaN equals NaN, and zeros have signs."""
    if isinstance(actual, type) or isinstance(expected, type):
        return actual is expected
    if actual.shape != expected.shape:
        return False
    if within:
        return bool(np.allclose(actual, expected, rtol=within, atol=0))
    if actual.dtype.kind == "f":
        expected = expected.astype(actual.dtype)
        if (np.signbit(actual) != np.signbit(expected))[actual == 0].any():
            return False
    return bool(np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f"))


# --- the page --------------------------------------------------------------------------------------

PAGE_OPENING = """\
# Rules for extreme numbers

Generated by `make docs` from `tests/properties/numeric_rules.py` and runs of its calls; a test compares it.

Each call gives the same value on every backend, which is the one by NumPy's rules: ✓. Where a backend
differs, its value is there with a number, and the reason is below the table. "–" means that a backend
does not have the kernel or the dtype. A row with "within" compares values up to that relative error; other
rows compare them exactly, with the signs of zeros.

`zeros` is `np.float32([0.0, -0.0])`, and `checked(f)` calls f while the setting `debug` is on.
"""


def rules_page() -> str:
    """Return the page: a table for each section with the results on each backend."""
    lines = [PAGE_OPENING]
    for section in SECTIONS:
        reasons: list[str] = []
        lines += [f"## {section.title}", "", section.text, ""]
        lines += [
            f"| call | value | {' | '.join(BACKENDS)} |",
            "|---|---|" + "---|" * len(BACKENDS),
        ]
        for rule in section.rules:
            within = f" within {rule.within:.0e}" if rule.within else ""
            cells = [table_cell(rule, backend, reasons) for backend in BACKENDS]
            lines.append(f"| `{rule.call}` | `{rule.value}`{within} | {' | '.join(cells)} |")
        lines += ["", *(f"{i}. {reason}" for i, reason in enumerate(reasons, 1))]
        lines += [""] if reasons else []
    return "\n".join(lines)


def table_cell(rule: Rule, backend: str, reasons: list[str]) -> str:
    """Return the text of a table cell, and collect the reason of a difference."""
    found = run_rule(rule, backend)
    if isinstance(found, str):
        return found
    if results_agree(found, evaluate(rule.value), rule.within):
        return "✓"
    if rule.difference is None or not results_agree(
        found, evaluate(rule.expected_on(backend)), rule.within
    ):
        return f"`{found}` without a reason"
    if rule.difference.reason not in reasons:
        reasons.append(rule.difference.reason)
    return f"`{rule.difference.value}` ({reasons.index(rule.difference.reason) + 1})"
