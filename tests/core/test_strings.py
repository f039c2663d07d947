"""Tensors of strings: Unicode text that stays on the host, whatever the backend."""

import copy

import numpy as np
import pytest

import plugrad
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    UnsupportedDtype,
)
from plugrad.extend import as_dtype, float32
from plugrad.kernels import movement, unary
from plugrad.types.dtype import promote, promote_scalar, scalar_dtype, string

STRING_DTYPE = np.dtypes.StringDType()
STRING_DTYPE_WITH_NONE = np.dtypes.StringDType(na_object=None)
STRINGS = [["a", "bé", ""], ["ccc", "a", "日本"]]


@pytest.mark.parametrize(
    "spelling", ["string", str, np.str_, STRING_DTYPE, np.dtype("<U7"), string]
)
def test_names_of_the_string_dtype(spelling):
    assert as_dtype(spelling) is string
    assert string.numpy == STRING_DTYPE
    assert repr(string) == "plugrad.string"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("a", "a"),
        (["a", "bé"], ["a", "bé"]),
        (STRINGS, STRINGS),
        ("", ""),
        (["a\0", "\0"], ["a\0", "\0"]),
        ("x" * 1000, "x" * 1000),
        (b"caf\xc3\xa9", "café"),
        ([b"a", "b"], ["a", "b"]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array([b"a", b"\xc3\xa9"]), ["a", "é"]),
        (np.array([["a"], ["bc"]], object), [["a"], ["bc"]]),
        (np.array(["a", "bc"], STRING_DTYPE), ["a", "bc"]),
        (np.array(["a", "bc"], STRING_DTYPE_WITH_NONE), ["a", "bc"]),
        (np.str_("a"), "a"),
        (["a", np.str_("b")], ["a", "b"]),
    ],
)
def test_string_tensors_from_texts_bytes_and_arrays(values, expected, backend):
    for x in (plugrad.asarray(values), plugrad.asarray(values, dtype=str)):
        assert x.dtype is string
        assert x.tolist() == expected
        assert x.shape == np.shape(expected)
        assert x.device == f"{backend}:0"


def test_empty_lists_may_become_strings(backend):
    assert plugrad.asarray([], dtype="string").dtype is string
    assert plugrad.asarray([[], []], dtype="string").shape == (2, 0)
    assert plugrad.asarray([]).dtype is float32


@pytest.mark.parametrize(
    ("values", "dtype", "error", "message"),
    [
        (["a", 1], None, ArgumentError, "asarray: obj must hold strings only; it holds 1"),
        (["a", None], None, ArgumentError, "must hold strings only; it holds None"),
        (np.array(["a", None], STRING_DTYPE_WITH_NONE), None, ArgumentError, "must hold strings only; it holds None"),
        (np.array(["a", 2.5], object), None, ArgumentError, "must hold strings only; it holds 2.5"),
        ([["a"], ["b", "c"]], None, ShapeError, "ragged list"),
        ([1, 2], "string", ArgumentError, "must hold strings only; it holds 1"),
        (5, "string", ArgumentError, "must hold strings only; it holds 5"),
        (["1"], "float32", ArgumentError, "holds strings, which have no float32; convert them"),
        ("1", "int32", ArgumentError, "holds strings, which have no int32"),
        (b"\xff", None, ArgumentValueError, "no text in UTF-8.*0xff"),
        (np.array([b"\xff"]), None, ArgumentValueError, "no text in UTF-8"),
        ("\ud800", None, ArgumentValueError, "no text in UTF-8.*surrogates"),
        ([1, None], None, ArgumentError, "must hold numbers; it holds object"),
    ],
)  # fmt: skip
def test_errors_for_values_that_cannot_be_string_tensors(values, dtype, error, message):
    with pytest.raises(error, match=message):
        plugrad.asarray(values, dtype=dtype)


def test_values_are_copied(backend):
    values = np.array(["a", "b"], STRING_DTYPE)
    x = plugrad.asarray(values)
    values[0] = "changed"
    assert x.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = "changed"


def test_reading_string_tensors(backend):
    x = plugrad.asarray(STRINGS)
    assert x.numpy().dtype == np.asarray(x).dtype == STRING_DTYPE
    assert x[1, 2].item() == "日本"
    assert (x.ndim, x.size, len(x)) == (2, 6, 2)
    assert [part.tolist() for part in x] == STRINGS
    where = "" if backend == "cpu" else f", device='{backend}:0'"
    assert repr(x[0]) == f"tensor(['a', 'bé', ''], dtype=string{where})"
    assert f"{x[0, 0]:>3}" == "  a"
    assert copy.copy(x) is not None


MOVING_EXPRESSIONS = [
    ("x", STRINGS),
    ("x[1]", STRINGS[1]),
    ("x[0, 1]", "bé"),
    ("x[:, ::-2]", [["", "a"], ["日本", "ccc"]]),
    ("x[..., None, 1:]", [[["bé", ""]], [["a", "日本"]]]),
    ("x[[1, 0], 0:1]", [["ccc"], ["a"]]),
    ("x[2:]", []),
    ("x.T", [["a", "ccc"], ["bé", "a"], ["", "日本"]]),
    ("x.reshape(3, 2)", [["a", "bé"], ["", "ccc"], ["a", "日本"]]),
    ("plugrad.reshape(x[0, 0], (1, 1))", [["a"]]),
    ("plugrad.expand_dims(x[0], 1)", [["a"], ["bé"], [""]]),
    ("plugrad.squeeze(x[:1])", STRINGS[0]),
    ("plugrad.broadcast_to(x[0, 1], (2,))", ["bé", "bé"]),
    ("plugrad.concat([x, x[:1]])", [*STRINGS, STRINGS[0]]),
    ("plugrad.concat([x, [['z'], ['']]], axis=1)", [[*STRINGS[0], "z"], [*STRINGS[1], ""]]),
    ("plugrad.concat([x, x], axis=None)[5:8]", ["日本", "a", "bé"]),
    ("plugrad.stack([x[0], x[1]], axis=1)", [["a", "ccc"], ["bé", "a"], ["", "日本"]]),
    ("plugrad.unstack(x[0])[1]", "bé"),
    ("plugrad.unstack(x, axis=1)[2]", ["", "日本"]),
    ("plugrad.split(x, [1, 2], axis=1)[1]", [["bé", ""], ["a", "日本"]]),
    ("plugrad.tile(x[0, :2], (2,))", ["a", "bé", "a", "bé"]),
    ("plugrad.flip(x, axis=1)", [["", "bé", "a"], ["日本", "a", "ccc"]]),
    ("plugrad.flip(x[0, 0])", "a"),
    ("plugrad.pad(x[:, 0], [(1, 2)], '-')", ["-", "a", "ccc", "-", "-"]),
    ("plugrad.take(x, [2, 0], axis=1)", [["", "a"], ["日本", "ccc"]]),
    ("plugrad.take(x[0], 1)", "bé"),
    ("plugrad.where(x == 'a', x, '-')", [["a", "-", "-"], ["-", "a", "-"]]),
    ("plugrad.where([True, False, True], x[0], x[1])", ["a", "a", ""]),
    ("plugrad.full((2,), 'q')", ["q", "q"]),
    ("plugrad.full((1, 2), '')", [["", ""]]),
    ("plugrad.full((), 'q', dtype='string')", "q"),
    ("plugrad.stop_gradient(x)", STRINGS),
    ("x.to('cpu')", STRINGS),
    ("x.to('cpu').to(x.device)", STRINGS),
    ("plugrad.unique(x[:, 1]).values", ["bé", "a"]),
]  # fmt: skip
COMPARING_EXPRESSIONS = [
    ("x == x", [[True] * 3] * 2),
    ("x == 'a'", [[True, False, False], [False, True, False]]),
    ("'a' != x", [[False, True, True], [True, False, True]]),
    ("x == x[0]", [[True] * 3, [False] * 3]),
    ("plugrad.equal(x[0], ['a', '', ''])", [True, False, True]),
    ("plugrad.not_equal('a', 'b')", True),
    ("x[0] < 'b'", [True, False, True]),
    ("x[0] <= 'bé'", [True, True, True]),
    ("x[1] > 'é'", [False, False, True]),
    ("x[1] >= 'ccc'", [True, False, True]),
]  # fmt: skip


@pytest.mark.rows(("call", "expected"), MOVING_EXPRESSIONS)
def test_movement_ops_on_strings(call, expected, backend):
    result = eval(call, {"plugrad": plugrad, "x": plugrad.asarray(STRINGS)})
    assert result.dtype is string
    assert result.tolist() == expected
    assert result.device == ("cpu:0" if call == "x.to('cpu')" else f"{backend}:0")


@pytest.mark.parametrize(("call", "expected"), COMPARING_EXPRESSIONS)
def test_comparisons_of_strings(call, expected, backend):
    result = eval(call, {"plugrad": plugrad, "x": plugrad.asarray(STRINGS)})
    assert (result.dtype, result.device) == ("bool", f"{backend}:0")
    assert result.tolist() == expected
    assert plugrad.logical_not(result).tolist() == np.logical_not(expected).tolist()


def test_movement_ops_of_empty_string_tensors(backend):
    x = plugrad.asarray([[], []], dtype="string")
    assert plugrad.concat([x, x], axis=1).shape == (2, 0)
    assert plugrad.flip(x).shape == x.reshape(0, 2).T.shape == (2, 0)
    assert plugrad.tile(x, (2, 1)).shape == (4, 0)
    assert plugrad.pad(x, [(0, 0), (1, 0)], "z").tolist() == [["z"], ["z"]]
    assert (x == "a").shape == (2, 0)
    assert plugrad.unstack(x, axis=1) == ()


def test_strings_are_not_equal_to_other_values(backend):
    x = plugrad.asarray(["a"])
    assert (x == None) is False  # noqa: E711
    assert (plugrad.ones(2) == "a") is False
    with pytest.raises(DTypeError, match="string tensor have no common dtype"):
        x == 1  # noqa: B015


INVALID_EXPRESSIONS = [
    ("x + x", "add does not take string"),
    ("x + 'a'", "add does not take string"),
    ("x + 1", "1 and a string tensor have no common dtype"),
    ("2.5 * x", "2.5 and a string tensor have no common dtype"),
    ("x + plugrad.ones(3)", "string and float32 have no common dtype"),
    ("-x", "negative does not take string"),
    ("plugrad.exp(x)", "exp does not take string.*Strings do not convert"),
    ("plugrad.isnan(x)", "isnan does not take string"),
    ("plugrad.minimum(x, x)", "minimum does not take string"),
    ("x @ x", "matmul does not take string"),
    ("plugrad.sum(x)", "[Ss]um does not take string"),
    ("plugrad.max(x)", "max does not take string"),
    ("plugrad.zeros_like(x)", "zeros_like does not take string"),
    ("plugrad.one_hot(x, 3)", "one_hot \\(indices\\) does not take string"),
    ("plugrad.concat([x, [1.0]])", "string and float32 have no common dtype"),
    ("x.astype('float32')", "string does not convert to float32"),
    ("plugrad.ones(2).astype('string')", "float32 does not convert to string"),
    ("plugrad.pad(x, [(0, 0), (0, 1)])", "constant_value=0 is not a string"),
    ("plugrad.pad(plugrad.ones(2), [(0, 1)], 'a')", "constant_value='a' is not a float32"),
    ("plugrad.grad(lambda x: x)(x)", "string, which has no gradient"),
    ("plugrad.run_kernel('Cast', {'x': x}, {'dtype': plugrad.float32})", "Cast does not take string"),
    ("plugrad.run_kernel('Add', {'a': x, 'b': x})", "Add does not take string"),
    ("plugrad.run_kernel('ZerosLike', {'x': x})", "ZerosLike does not take string"),
    ("x[0, 0].__index__()", "string tensor cannot be an index"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), INVALID_EXPRESSIONS)
def test_arithmetic_is_refused(call, message, backend):
    with pytest.raises(DTypeError, match=message):
        eval(call, {"plugrad": plugrad, "x": plugrad.asarray(STRINGS)})


@pytest.mark.parametrize("call", ["zeros", "ones"])
def test_string_tensors_cannot_be_filled_with_numbers(call, backend):
    with pytest.raises(ArgumentError, match="does not hold numbers"):
        getattr(plugrad, call)(2, dtype="string")


def test_error_of_a_kernel_that_fails_on_strings(backend):
    """The contract of OneHot checks only the indices, so the kernel must report strings."""
    with pytest.raises(
        UnsupportedDtype,
        match=rf"OneHot on backend '{backend}' \(plugrad-{backend}\) does not take string",
    ):
        plugrad.one_hot([1], 2, dtype="string")


def test_errors_of_kernels_are_the_same_with_strings(backend):
    with pytest.raises(ShapeError, match="Slice: begin"):
        movement.slice(plugrad.asarray(["a"]), begin=(2,), size=(1,))


def test_promotion_of_strings():
    assert promote(string, string) is string
    assert scalar_dtype("a") is string
    for a, b in ((string, float32), (float32, string)):
        with pytest.raises(DTypeError, match=f"{a} and {b} have no common dtype"):
            promote(a, b)
    with pytest.raises(DTypeError, match="True and a string tensor"):
        promote_scalar(string, True)


def test_strings_take_no_device_memory(backend):
    before = plugrad.memory()
    x = plugrad.asarray(["long" * 1000] * 10)
    after = plugrad.memory()
    assert (after.buffers, after.bytes) == (before.buffers, before.bytes)
    assert unary.identity(x).tolist() == x.tolist()


def test_every_backend_has_strings(backend):
    assert string in plugrad.which().backend.dtypes()
    (listed,) = [b for b in plugrad.backends() if b.name == backend]
    assert "string" in listed.manifest.dtypes
