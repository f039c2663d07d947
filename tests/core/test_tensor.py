"""The tensor: operators, indexing, values on the host, and how it prints."""

import copy
import operator
import pickle
import rlcompleter

import numpy as np
import pytest

import plugrad
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DisposedTensor,
    DTypeError,
    PlugradError,
    ShapeError,
)

MATRIX = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -6.0]], "float32")
OTHER_MATRIX = np.array([[2.0, 3.0, -1.5], [0.25, -2.0, 5.0]], "float32")
ARITHMETIC_OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
]
COMPARISON_OPERATORS = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


@pytest.fixture
def x():
    return plugrad.asarray(MATRIX)


def is_identical(actual, expected):
    """Return whether a tensor has the given values, shape and dtype."""
    y = actual.numpy()
    return y.shape == expected.shape and y.dtype == expected.dtype and np.allclose(y, expected)


def pickle_round_trip(x):
    return pickle.loads(pickle.dumps(x))


# --- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op", ARITHMETIC_OPERATORS + COMPARISON_OPERATORS, ids=lambda op: op.__name__
)
@pytest.mark.parametrize(
    "other",
    [
        OTHER_MATRIX,
        OTHER_MATRIX[0],
        OTHER_MATRIX[:, :1],
        2,
        -1.5,
        [2.0, 3.0, 4.0],
        np.float32(2.5),
        OTHER_MATRIX.tolist(),
    ],
    ids=["array", "row", "column", "int", "float", "list", "scalar", "nested"],
)
def test_operator_works_from_both_sides(x, op, other):
    host = np.asarray(other, "float32") if isinstance(other, list) else other
    operands = [other] if isinstance(other, list | int | float) else [other, plugrad.asarray(other)]
    for operand in operands:
        assert is_identical(op(x, operand), op(MATRIX, host))
        assert is_identical(op(operand, x), op(host, MATRIX))


def test_power_operator(x):
    y = np.abs(MATRIX)
    assert is_identical(plugrad.asarray(y) ** 2, y**2)
    assert is_identical(plugrad.asarray(y) ** OTHER_MATRIX, y**OTHER_MATRIX)
    assert is_identical(2**x, np.float32(2) ** MATRIX)
    assert is_identical([2.0, 3.0, 4.0] ** x, np.asarray([2.0, 3.0, 4.0], "float32") ** MATRIX)


def test_matrix_product_from_both_sides(x):
    assert is_identical(x @ OTHER_MATRIX.T, MATRIX @ OTHER_MATRIX.T)
    assert is_identical(OTHER_MATRIX.T @ x, OTHER_MATRIX.T @ MATRIX)
    assert is_identical(x @ [1.0, 2.0, 3.0], MATRIX @ np.array([1, 2, 3], "float32"))
    assert is_identical(x @ x.T, MATRIX @ MATRIX.T)


def test_unary_sign_operators(x):
    assert is_identical(-x, -MATRIX)
    assert is_identical(abs(x), np.abs(MATRIX))
    assert (+x).array is x.array


def test_logical_operators():
    a, b = np.array([True, True, False]), np.array([True, False, False])
    x = plugrad.asarray(a)
    for op in (operator.and_, operator.or_, operator.xor):
        assert is_identical(op(x, b), op(a, b))
        assert is_identical(op(b, x), op(b, a))
        assert is_identical(op(True, x), op(True, a))
    assert is_identical(~x, ~a)
    with pytest.raises(DTypeError, match=r"cast first|Cast first"):
        plugrad.asarray([1.0]) & True


def test_in_place_operators_make_new_tensors(x):
    y = x
    y += 1
    assert y is not x
    assert is_identical(x, MATRIX)
    assert is_identical(y, MATRIX + 1)


def test_comparison_with_other_objects():
    x = plugrad.asarray(1.0)
    assert (x == None, x != None, x == "a") == (False, True, False)  # noqa: E711
    with pytest.raises(TypeError):
        x < None  # noqa: B015
    with pytest.raises(
        ArgumentError, match="must be a tensor, a number, an array or a nested list"
    ):
        x + object()
    with pytest.raises(TypeError):
        x + "1"


def test_shapes_that_do_not_fit_name_both(x):
    with pytest.raises(
        ShapeError, match=r"\(2, 3\) and \(2,\) do not broadcast: sizes \[2, 3\] meet on axis -1"
    ):
        x + np.ones(2, "float32")


# --- immutability ---------------------------------------------------------------------------------


def test_attributes_and_shared_memory_cannot_be_written_to(x):
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 1
    with pytest.raises(AttributeError):
        x.shape = (3, 2)
    with pytest.raises(AttributeError):
        x.color = "red"


def test_tensors_do_not_follow_changes_of_their_source_array():
    source = np.ones(3)
    x = plugrad.asarray(source)
    source[:] = 5
    assert x.tolist() == [1.0, 1.0, 1.0]


# --- values on the host ---------------------------------------------------------------------------


def test_conversion_to_numpy_arrays(x):
    assert is_identical(x, MATRIX)
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, "float64").dtype == np.float64
    copied = np.array(x)
    copied[0] = 0
    assert is_identical(x, MATRIX)
    assert np.sum(np.asarray(x)) == MATRIX.sum()
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, "float64", copy=False)


def test_arrays_of_another_byte_order_are_numbers_too():
    for dtype in ("float64", "int16", "complex64"):
        x = plugrad.asarray(np.array([1, 2], np.dtype(dtype).newbyteorder("S")))
        assert (x.dtype, x.tolist()) == (dtype, [1, 2])


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, pickle_round_trip], ids=lambda f: f.__name__
)
def test_copies_are_on_the_device_of_the_tensor(copied, backend):
    for value in ([1.0, 2.0], [True], "text"):
        x = plugrad.asarray(value)
        y = copied(x)
        assert (y.tolist(), y.dtype, y.backend) == (x.tolist(), x.dtype, x.backend)
        x.dispose()
        assert y.tolist() == value
    w = plugrad.Variable([1.0, 2.0], trainable=False, name="w")
    v = copied(w)
    v.assign(v * 2)
    assert (v.tolist(), v.name, v.trainable, w.tolist()) == ([2.0, 4.0], "w", False, [1.0, 2.0])


def test_copies_are_differentiated():
    for copied in (copy.copy, copy.deepcopy):
        assert plugrad.grad(lambda x, f=copied: f(x) * x)(3.0).item() == 6.0


def test_conversion_of_single_elements_to_python():
    assert plugrad.asarray([[2.5]]).item() == 2.5
    assert type(plugrad.asarray(3).item()) is int
    assert type(plugrad.asarray(True).item()) is bool
    assert (float(plugrad.asarray(3)), int(plugrad.asarray(3.7)), complex(plugrad.asarray(1j))) == (
        3.0,
        3,
        1j,
    )
    assert list(range(5))[plugrad.asarray(2)] == 2
    with pytest.raises(DTypeError, match="float32 tensor cannot be an index"):
        list(range(5))[plugrad.asarray(2.0)]


@pytest.mark.parametrize("convert", [float, int, bool, complex, lambda x: x.item()])
def test_conversion_needs_one_element(x, convert):
    for wrong in (x, plugrad.zeros(0)):
        with pytest.raises(ShapeError, match=r"one element; this one has shape \("):
            convert(wrong)


def test_truth_value_of_tensors():
    assert plugrad.asarray([1.0])
    assert not plugrad.asarray(0)
    assert plugrad.asarray([[True]])


def test_length_and_iteration(x):
    assert len(x) == 2
    rows = list(x)
    assert [r.tolist() for r in rows] == MATRIX.tolist()
    first, second = x
    assert is_identical(first + second, MATRIX[0] + MATRIX[1])
    assert list(plugrad.zeros((0, 2))) == []
    with pytest.raises(TypeError, match="0-d tensor"):
        len(plugrad.asarray(1))
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(plugrad.asarray(1))


def test_membership_is_by_value(x):
    assert x.tolist()[0][0] in [1.5]
    assert {x: 1}[x] == 1
    assert hash(x) == hash(x)
    assert hash(x) != hash(x + 0)


def test_attributes_of_tensors(x):
    assert (x.shape, x.ndim, x.size, x.dtype, x.device) == ((2, 3), 2, 6, plugrad.float32, "cpu:0")
    assert is_identical(x.T, MATRIX.T)
    with pytest.raises(ShapeError, match="T is for two axes"):
        plugrad.zeros(3).T  # noqa: B018


def test_misspelt_attribute_suggests_the_nearest(x):
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'reshap'") as caught:
        x.reshap  # noqa: B018
    assert caught.value.name == "reshap"  # Python's own suggestion is made from these
    assert caught.value.obj is x
    assert not hasattr(x, "grad")


def test_a_disposed_tensor_keeps_its_class_and_its_attributes():
    for kind in (plugrad.asarray, plugrad.Variable):
        x = kind([1.0])
        like = type(x)
        x.dispose()
        assert isinstance(x, like)
        assert type(x).__name__ == like.__name__
        assert not hasattr(x, "reshap")
        with pytest.raises(DisposedTensor):
            pickle_round_trip(x)


def test_methods_call_their_ops(x):
    assert is_identical(x.sum(axis=0), MATRIX.sum(0))
    assert is_identical(x.mean(axis=1, keepdims=True), MATRIX.mean(1, keepdims=True))
    assert is_identical(x.max(axis=1), MATRIX.max(1))
    assert is_identical(x.min(), MATRIX.min())
    assert x.argmax().item() == MATRIX.argmax()
    assert is_identical(x.reshape(3, 2), MATRIX.reshape(3, 2))
    assert is_identical(x.reshape((-1,)), MATRIX.reshape(-1))
    assert is_identical(x.astype("int32"), MATRIX.astype("int32"))
    assert is_identical(x.square(), MATRIX**2)
    assert is_identical(x.squared_difference(1), (MATRIX - 1) ** 2)
    assert x.to("cpu").array is x.array


# --- printing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: plugrad.asarray(1.5), "tensor(1.5, dtype=float32)"),
        (lambda: plugrad.asarray([1, 2]), "tensor([1, 2], dtype=int32)"),
        (
            lambda: plugrad.asarray([[True], [False]]),
            "tensor([[ True],\n        [False]], dtype=bool)",
        ),
        (lambda: plugrad.zeros(0), "tensor([], dtype=float32)"),
        (lambda: plugrad.zeros((2, 0)), "tensor([], dtype=float32, shape=(2, 0))"),
        (lambda: plugrad.asarray([1j], dtype="complex128"), "tensor([0.+1.j], dtype=complex128)"),
        (lambda: plugrad.Variable([1.0], name="w"), "Variable([1.], dtype=float32, name='w')"),
    ],
)
def test_tensor_prints_readably(make, text):
    assert repr(make()) == str(make()) == f"{make()}" == text


def test_large_tensors_are_printed_abbreviated():
    assert (
        repr(plugrad.arange(5000))
        == "tensor([   0,    1,    2, ..., 4997, 4998, 4999], dtype=int32, shape=(5000,))"
    )


def test_repr_of_tensors_on_other_devices_names_the_device(fake_backend_name):
    assert (
        repr(plugrad.ones(2, device=fake_backend_name))
        == "tensor([1., 1.], dtype=float32, device='fake_device:0')"
    )


def test_single_values_are_formatted():
    assert f"{plugrad.asarray(3.14159):.2f}" == "3.14"
    assert f"{plugrad.asarray([255]):x}" == "ff"
    with pytest.raises(ShapeError):
        f"{plugrad.zeros(3):.2f}"


# --- making one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (None, ArgumentError, "asarray: obj must be a tensor, a number, an array or a nested list"),
        ({1: 2}, ArgumentError, "not dict"),
        (
            [[1, 2], [3]],
            ShapeError,
            "obj is a ragged list; the lists on one level must have equal lengths",
        ),
        ([plugrad.float32], ArgumentError, "obj must hold numbers; it holds object"),
        (plugrad.float32, ArgumentError, "obj must be a tensor, .*, not DType"),
        (
            2**31,
            ValueError,
            "obj=2147483648 does not fit int32; ask for another dtype, such as 'int64'",
        ),
        ([1, 2**40], ValueError, "does not fit int32"),
        (np.array([None]), ArgumentError, "obj must hold numbers or strings; it holds object"),
    ],
)
def test_errors_name_values_that_cannot_be_tensors(value, error, message):
    with pytest.raises(error, match=message) as caught:
        plugrad.asarray(value)
    assert isinstance(caught.value, PlugradError)


def test_list_of_tensors_is_stacked(x):
    assert is_identical(plugrad.asarray([x, x]), np.stack([MATRIX, MATRIX]))
    assert plugrad.asarray([[x[0, 0], 1], (2, x[0, 0])], dtype="float64").dtype == "float64"
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.asarray([[x], [x * x]])))
    assert gradient(plugrad.asarray(3.0)).item() == 7
    with pytest.raises(ShapeError, match="Pack"):
        plugrad.asarray([x, x[0]])
    with pytest.raises(ArgumentValueError, match="copy=False"):
        plugrad.asarray([x, x], copy=False)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([np.float32(1), 2], "float32"),
        ([2.5, np.float32(1)], "float32"),
        ([[np.float32(1), 2], [3, 4.5]], "float32"),
        ([[1, 2], (np.float32(1), 2)], "float32"),
        ([np.int8(1), np.float32(2)], "float32"),
        ([np.int32(1), np.float32(2)], "float32"),
        ([np.int8(1), 2.5], "float32"),
        ([np.int8(1), 2], "int8"),
        ([np.uint8(1), np.int8(2)], "int16"),
        ([np.bool_(True), False], "bool"),
        ([[True], [np.bool_(False)]], "bool"),
        ([np.bool_(True), 2], "int32"),
        ([True, np.int8(3)], "int8"),
        ([np.float16(1), 2.0], "float16"),
        ([np.float64(1), 2], "float64"),
        ([[np.float64(1)], [2]], "float64"),
        ([np.float32(1), 1j], "complex64"),
        ([np.float64(1), 1j], "complex128"),
        ([np.complex64(1), 2.0], "complex64"),
        ([np.ones(2, "int8"), [1, 2]], "int8"),
        ([np.ones(2, ">f4"), [1, 2.5]], "float32"),
        ([[np.int64(2)]], "int64"),
        ([np.zeros(0, "int8")], "int8"),
        ([np.uint64(1), np.int64(1), np.float32(1)], "float32"),
        ([1, 2.5, True], "float32"),
    ],
)
def test_numpy_numbers_in_a_list_keep_their_dtype_and_python_numbers_give_way(values, dtype):
    y = plugrad.asarray(values, device="cpu")
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), np.asarray(values).astype(dtype))
    assert plugrad.asarray(values, dtype="complex128", device="cpu").dtype == "complex128"


def test_numpy_numbers_in_a_list_on_every_backend(backend):
    assert plugrad.asarray([np.float32(1), 2]).dtype == "float32"
    assert plugrad.add([np.float32(1), 2], plugrad.asarray([1, 2])).dtype == "float32"
    assert plugrad.take([1.0, 2.0], [[np.int32(1)], [0]]).tolist() == [[2.0], [1.0]]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([np.int8(1), 300], ArgumentValueError, "does not fit int8"),
        ([np.int64(1), np.uint64(1)], DTypeError, "asarray: obj: int64 and uint64 have no common"),
        ([np.float32(1), None], ArgumentError, "must hold numbers"),
        ([np.float32(1), "a"], ArgumentError, "must hold strings only"),
        ([np.datetime64("2020")], ArgumentError, "must hold numbers; it holds datetime64"),
    ],
)
def test_numpy_numbers_in_a_list_that_do_not_combine(values, error, message):
    with pytest.raises(error, match=message):
        plugrad.asarray(values, device="cpu")


def test_unsupported_dtype_names_the_backend_and_the_remedy(fake_backend_name):
    for make in (
        lambda: plugrad.asarray(np.zeros(3), dtype="float64", device=fake_backend_name),
        lambda: plugrad.zeros(3, dtype="float64", device=fake_backend_name),
        lambda: plugrad.ones(3, device=fake_backend_name).astype("float64"),
        lambda: plugrad.ones(3, dtype="float64").to(fake_backend_name),
    ):
        with pytest.raises(
            plugrad.errors.UnsupportedDtype,
            match=r"'fake_device' does not have float64; it has .*dtype='float32'\), or compute on the cpu",
        ):
            make()


def test_negative_zero_is_not_replaced_by_a_cached_zero(backend):
    x = plugrad.ones((1,))
    assert not np.signbit(plugrad.maximum(x * 0.0, 0.0).numpy())
    assert np.signbit((x * -0.0).numpy())
    assert not np.signbit((x * 0.0).numpy())


def test_html_for_notebooks(backend):
    x = plugrad.asarray([[1.5, 2.0], [0.0, -1.0]])
    values, label = x._repr_html_().removeprefix("<pre>").split("</pre>")
    assert values == "[[ 1.5,  2. ],\n [ 0. , -1. ]]"
    assert label == f"<small>shape 2×2 · float32 · {backend}:0</small>"
    assert len(plugrad.zeros((1000, 1000))._repr_html_()) < 1000
    assert "shape 0×3 · " in plugrad.zeros((0, 3))._repr_html_()
    named = plugrad.Variable(1.0, name="<w>")._repr_html_()
    assert named == f"<pre>1.</pre><small>&lt;w&gt; · shape () · float32 · {backend}:0</small>"
    assert "<script>" not in plugrad.asarray(["<script>"])._repr_html_()
    x.dispose()
    assert x._repr_html_() == "<pre>tensor(&lt;disposed&gt;)</pre>"


def test_consoles_complete_names_that_can_be_used():
    x = plugrad.asarray([1.0])
    complete = rlcompleter.Completer({"plugrad": plugrad, "x": x}).attr_matches
    names = {name.rstrip("()") for name in complete("plugrad.")}
    assert {"plugrad.relu", "plugrad.plot_graph", "plugrad.fft", "plugrad.Tensor"} <= names
    assert {"x.shape", "x.reshape()"} <= {
        name.partition("(")[0] + "()" * name.endswith("(") for name in complete("x.")
    }
    members = set(dir(x))
    assert {"shape", "numpy", "reshape", "T"} <= members
    assert not members & {"grad", "backward", "requires_grad", "detach"}
