"""``x[key] = value`` against NumPy: values, gradients to second order, and what stays unchanged."""

import copy
import operator
import pickle

import numpy as np
import pytest

import plugrad
from core.test_indexing import (
    ALL,
    ALL_SHAPES_AND_KEYS,
    CUBE,
    INTEGER_KEYS,
    IS_EVEN,
    MASK_KEYS,
    ROW_MASK,
    cube_tensor,
    tensor_from_key_part,
)
from families.case import Case, ErrorCase
from families.domains import uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    BackendMismatch,
    DisposedTensor,
    DTypeError,
    ShapeError,
    TensorIndexError,
    TracingError,
)
from plugrad.tensor.trees import iter_tensors
from properties.calls import CALLS, public_ops


def assign_both(x, key, value):
    """Return an array and a tensor, after the same assignment to each."""
    host = x.copy()
    host[key] = value
    tensor = plugrad.asarray(x)
    before = tensor[...]
    tensor[key] = plugrad.asarray(value) if isinstance(value, np.ndarray) else value
    assert before.tolist() == x.tolist()
    assert (tensor.shape, tensor.dtype) == (x.shape, x.dtype.name)
    return tensor.numpy(), host


# --- values ---------------------------------------------------------------------------------------


def test_assignment_matches_numpy(backend):
    for shape, key in ALL_SHAPES_AND_KEYS:
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        picked = x[key]
        new = -1 - np.arange(picked.size, dtype="float32").reshape(picked.shape)
        wide = (
            new[None, None] if new.ndim > 1 else new
        )  # NumPy refuses one for a number and for a mask
        for value in (-7.0, new, wide, *([new[..., :1]] if new.ndim else [])):
            actual, expected = assign_both(x, key, value)
            np.testing.assert_array_equal(actual, expected, err_msg=f"{shape} {key}")


def test_tensors_work_as_indices(backend):
    for key in (*INTEGER_KEYS, *MASK_KEYS):
        parts = key if isinstance(key, tuple) else (key,)
        arrays = (list, tuple, np.ndarray)
        tensors = tuple(
            tensor_from_key_part(part) if isinstance(part, arrays) else part for part in parts
        )
        for value in (-7, -np.arange(CUBE[key].size, dtype="int32").reshape(CUBE[key].shape)):
            x, expected = cube_tensor(), CUBE.copy()
            x[tensors], expected[key] = value, value
            np.testing.assert_array_equal(x.numpy(), expected, err_msg=str(key))


def test_last_value_for_an_element_counts(backend):
    x = plugrad.zeros(3)
    x[[0, 1, 0, -3]] = [1.0, 2.0, 3.0, 4.0]
    assert x.tolist() == [4, 2, 0]


def test_assignment_by_masks_of_some_or_all_axes(backend):
    per_row = np.array([1, 2, 3], "float32")[:, None, None]
    for key, value in (
        ((ALL, IS_EVEN[0]), per_row[..., 0]),
        ((ALL, IS_EVEN[0, :, 0]), per_row),
        ((ALL, IS_EVEN[0, :, 0]), per_row * np.ones(5, "float32")),
        (ROW_MASK, np.arange(20, dtype="float32").reshape(1, 4, 5)),
        (IS_EVEN[:, :, 0], np.arange(5, dtype="float32")),
        (IS_EVEN, np.array([np.nan], "float32")),
    ):
        actual, expected = assign_both(CUBE.astype("float32"), key, value)
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int64", "float16", "complex64"])
def test_assignment_in_other_dtypes(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    x = (CUBE % 7).astype(dtype)
    new = {"bool": True, "complex64": 1j, "float16": 1.5}.get(dtype, 5)
    # Python's numbers are weak, also in lists.
    for key in (0, (slice(None, None, 2), -1), IS_EVEN, ([0, 2], [1, 3])):
        for value in (new, [new] * np.shape(x[key])[-1]):
            actual, expected = assign_both(x, key, value)
            np.testing.assert_array_equal(actual, expected)


def test_assigned_value_is_cast_to_the_dtype_of_the_tensor(backend):
    x = plugrad.zeros(3)
    x[0], x[1], x[2] = plugrad.asarray(2), np.int32(3), np.array(True)
    assert (x.tolist(), x.dtype) == ([2, 3, 1], "float32")
    x[:] = range(3)
    assert x.tolist() == [0, 1, 2]


def test_assignment_of_strings(backend):
    x = plugrad.asarray(["a", "b", "c"])
    x[1:], x[[0]], x[x == "q"] = "q", ["é"], ["r", "s"]
    assert x.tolist() == ["é", "r", "s"]


def test_assignment_at_unchecked_positions_out_of_range(backend):
    x, far = plugrad.zeros(3), plugrad.asarray(np.array([1, 3, -4], "int32"))
    if backend == "cpu":
        with pytest.raises(TensorIndexError, match="index 3 is out of range"):
            x[far] = 1
    else:
        x[far] = 1
        assert x.tolist() == [0, 1, 0]


SLICE_KEYS = [
    (slice(1, -1), slice(1, -1)),
    (slice(1, -1),),
    (slice(None), slice(2, None), slice(None, -1)),
    (slice(0, 4), slice(0, 5), slice(0, 3)),  # most of it, but not the border at the end
    (slice(None), slice(None), slice(None)),
    (slice(2, 2), slice(1, -1)),
    (slice(1, None, 2), slice(1, -1)),
    (slice(1, 2), slice(1, 3)),
    (..., slice(1, None)),
]


@pytest.mark.parametrize("key", SLICE_KEYS, ids=str)
def test_assignment_to_a_block_keeps_the_elements_around_it(key, backend):
    values = np.arange(5 * 6 * 4, dtype=np.float32).reshape(5, 6, 4)
    for x in (values, values[::-1], values.transpose(2, 1, 0)):
        given, expected = plugrad.asarray(x), x.copy()
        before = given + 0
        given[key] = -expected[key]
        expected[key] = -expected[key].copy()
        np.testing.assert_array_equal(given.numpy(), expected)
        np.testing.assert_array_equal(before.numpy(), x)
        given[key] = 7
        expected[key] = 7
        np.testing.assert_array_equal(given.numpy(), expected)


@pytest.mark.parametrize("size", [12, 300], ids=["small", "large"])
def test_a_block_is_replaced_by_an_overlapping_one(size, backend):
    x = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    given, expected = plugrad.asarray(x, copy=True), x.copy()
    view = given[1:-1, 1:-1]
    given[1:-1, 1:-1] = given[2:, 2:] + view
    expected[1:-1, 1:-1] = x[2:, 2:] + x[1:-1, 1:-1]
    np.testing.assert_array_equal(given.numpy(), expected)
    np.testing.assert_array_equal(view.numpy(), x[1:-1, 1:-1])
    given[1:, :-1] = given[:-1, 1:]
    expected[1:, :-1] = expected[:-1, 1:].copy()
    np.testing.assert_array_equal(given.numpy(), expected)


@pytest.mark.parametrize("copied", [None, True, False])
def test_array_api_extra_at_assigns_elements(copied, backend):
    extra = pytest.importorskip("array_api_extra", reason="it is in the group dev, not in plugrad")
    host = CUBE[0].astype("float32")
    for key in ((0, 1), slice(1, None), (ALL, [0, 2]), host > 9):
        for change in ("set", "add", "multiply", "max"):
            x = plugrad.asarray(host)
            of_tensor, of_array = extra.at(x)[key], extra.at(host.copy())[key]
            result = getattr(of_tensor, change)(7.0, copy=copied)
            expected = getattr(of_array, change)(7.0, copy=copied)
            np.testing.assert_array_equal(result.numpy(), expected)
            assert not copied or x.tolist() == host.tolist()


# --- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ((slice(None, None, -2), ..., 1), (2, 4)),
        ((0, None, slice(1, 4, 2)), (1, 5)),
        ([2, 0, 2], (3, 1, 5)),
        ((ALL, [3, 1, -1], [0, 4, 0]), (3, 3)),
        (([0, 2], slice(1, 3), [[1], [3]]), (2, 2, 2)),
        (IS_EVEN, ()),
        ((ALL, IS_EVEN[0]), (10,)),
    ],
    ids=str,
)
def test_gradient_of_assignment(key, shape, backend, rng):
    def with_assignment(x, y):
        x = x * x
        z = x * y.sum()  # the tape keeps x
        x[key] = y * y
        return x * x + z

    def without_assignment(x, y):
        z = x * x * y.sum()
        x = x * x
        x[key] = y * y
        return x * x + z

    Case(
        with_assignment, without_assignment, [uniform(0.5, 2)] * 2, [CUBE.shape, shape]
    ).check_gradient(rng, backend)


def test_argument_of_a_differentiated_function_keeps_its_values(backend):
    def f(x):
        x[0] = 3 * x[1]
        x[1] *= x[1]
        return x

    x = plugrad.asarray([2.0, 5.0])
    assert plugrad.jacobian(f)(x).tolist() == [[0, 3], [0, 10]]
    assert x.tolist() == [2, 5]
    assert plugrad.vjp(f, x)[0].tolist() == [15, 25]
    assert f(x) is x
    assert x.tolist() == [15, 25]


def test_saved_tensors_keep_their_values():
    @plugrad.custom_grad
    def square(x, save):
        y = +x
        save(x, y)
        x[0] = y[0] = 7.0
        return y * y, lambda dy, saved: dy * (saved[0] + saved[1])

    f = lambda x: plugrad.sum(square(x))  # noqa: E731
    assert plugrad.grad(f)(plugrad.asarray([2.0, 3.0])).tolist() == [4, 6]

    @plugrad.checkpoint
    def scaled(x, by):
        x[0] = 2 * x[1]
        by[0] *= 3
        return x * by

    by = plugrad.asarray([1.0, 1.0])
    f = lambda x: plugrad.sum(scaled(x, by=by))  # noqa: E731
    assert plugrad.grad(f)(plugrad.asarray([2.0, 5.0])).tolist() == [0, 7]
    assert by.tolist() == [1, 1]


# --- only the tensor itself changes ---------------------------------------------------------------

COPYING_FUNCTIONS = {
    "x[:]": lambda x: x[:],
    "x[...]": lambda x: x[...],
    "+x": operator.pos,
    "positive": plugrad.positive,
    "asarray": plugrad.asarray,
    "astype": lambda x: plugrad.astype(x, "float32"),
    "reshape": lambda x: x.reshape(2, 3),
    "to": lambda x: x.to("cpu"),
    "to_device": lambda x: x.to_device(x.device),
    "from_dlpack": plugrad.from_dlpack,
    "numpy": lambda x: x.numpy(),
    "np.asarray": np.asarray,
    "clip": plugrad.clip,
    "real": plugrad.real,
    "conj": plugrad.conj,
    "diff": lambda x: plugrad.diff(x, n=0),
    "roll": lambda x: plugrad.roll(x, 0, axis=0),
    "dropout": lambda x: plugrad.dropout(x, 0),
    "ensure_shape": lambda x: plugrad.ensure_shape(x, (2, None)),
    "broadcast_to": lambda x: plugrad.broadcast_to(x, (2, 3)),
    "broadcast_arrays": lambda x: plugrad.broadcast_arrays(x, x)[0],
    "fftshift": lambda x: plugrad.fft.fftshift(x, axes=()),
    "matrix_power": lambda x: plugrad.linalg.matrix_power(x @ x.T, 1),
    "weighted loss": lambda x: plugrad.losses.compute_weighted_loss(x, reduction="none"),
    "stop_gradient": plugrad.stop_gradient,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "Variable": plugrad.Variable,
    "Variable as a tensor": lambda x: +plugrad.Variable(x),
    "grad of the identity": lambda x: plugrad.value_and_grad(lambda x: x)(x, dy=x)[0],
    "vjp": lambda x: plugrad.vjp(lambda x: x, x)[0],
    "checkpoint": lambda x: plugrad.checkpoint(lambda x: x)(x),
    "unstack": lambda x: plugrad.stack(plugrad.unstack(x)),
}


@pytest.mark.parametrize("made", COPYING_FUNCTIONS, ids=str)
def test_tensors_made_before_keep_their_values(made):
    x = plugrad.arange(6, dtype="float32").reshape(2, 3)
    y = COPYING_FUNCTIONS[made](x)
    before = y.tolist()
    x[...] = -1.0
    assert y.tolist() == before
    if isinstance(y, plugrad.Tensor):
        y[0] = -2.0
        assert x.tolist() == [[-1.0] * 3] * 2


def test_no_op_returns_its_argument():
    ops, skipped = public_ops(), []
    for name, (args, kwargs) in CALLS.items():
        given = [plugrad.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
        mine = {id(x) for x in given if isinstance(x, plugrad.Tensor)}
        result = ops[name](*given, **kwargs)
        assert mine.isdisjoint(map(id, iter_tensors(result))), name
        skipped += [] if mine else [name]
    assert len(skipped) < len(CALLS) / 4


def test_tidy_blocks_and_tensor_counts_with_assignments(backend):
    x = plugrad.zeros(4)
    before = plugrad.memory().tensors
    with plugrad.tidy():
        x[1:3] = plugrad.ones(2)
        y = x[:]
        y[0] = 5.0
        assert plugrad.memory().tensors == before + 1
    assert (x.tolist(), y.is_disposed, plugrad.memory().tensors) == ([0, 1, 1, 0], True, before)


def test_tensor_stays_on_its_device(backend):
    if backend == "cpu":
        pytest.skip("this is about tensors of another backend")
    x = plugrad.zeros(3)
    with plugrad.use("cpu", transfer=True):
        x[0] = plugrad.asarray(2.0)
    assert (x.device, x.tolist()) == (f"{backend}:0", [2, 0, 0])


# --- variables ------------------------------------------------------------------------------------


def test_variables_assign_in_place():
    w = same = plugrad.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
    before = +w
    w += 1
    w -= [[1.0, 0.0], [0.0, 0.0]]
    w *= 2
    w /= 4
    w **= 2
    w @= w
    w[0, 1] = 0
    w[0] += 1
    assert w is same
    assert isinstance(w, plugrad.Variable)
    matrix = (np.array([[1, 3], [4, 5]]) / 2) ** 2
    matrix = matrix @ matrix
    matrix[0, 1] = 0
    matrix[0] += 1
    np.testing.assert_allclose(w.numpy(), matrix, rtol=1e-6)
    assert before.tolist() == [[1, 2], [3, 4]]
    n = plugrad.Variable([6, 3])
    n //= 2
    n %= 2
    n <<= 3
    n |= 1
    n ^= 3
    n &= 6
    n >>= 1
    assert n.tolist() == [1, 1]


def test_variable_keeps_its_shape_and_dtype():
    w = plugrad.Variable([1, 2], name="w")
    with pytest.raises(DTypeError, match="variable 'w' has dtype int32, the new value float32"):
        w += 0.5
    with pytest.raises(ShapeError, match=r"variable 'w' has shape \(2,\), the new value \(2, 2\)"):
        w += [[1, 2], [3, 4]]
    assert w.tolist() == [1, 2]


def test_variable_that_is_being_differentiated_does_not_change():
    w, state = plugrad.Variable([1.0, 2.0], name="w"), plugrad.Variable(0.0)

    def loss(change):
        nonlocal state
        state += 1  # nobody asks for its gradient
        change()
        x = +w
        x[0] = x[1] * x[1]
        return plugrad.sum(x)

    assert plugrad.variable_grads(lambda: loss(int), [w])[1][0].tolist() == [0, 5]
    for change in (lambda: w.__setitem__(0, 1.0), lambda: operator.iadd(w, 1)):
        with pytest.raises(
            ArgumentError, match=r"variable 'w' while it is being .* x = \+variable"
        ):
            plugrad.variable_grads(lambda: loss(change), [w])  # noqa: B023
    assert (w.tolist(), state.item()) == ([1, 2], 3)


# --- what is refused ------------------------------------------------------------------------------


def assign(key, value, x=None):
    (cube_tensor() if x is None else x)[key] = value


def disposed_tensor():
    x = plugrad.ones(2)
    x.dispose()
    return x


REJECTED_ASSIGNMENTS = [
    ErrorCase(lambda: assign(3, 1), TensorIndexError, ["index 3", "axis 0", "size 3"]),
    ErrorCase(lambda: assign([0, 5], 1), TensorIndexError, ["index 5", "axis 0", "size 3"]),
    ErrorCase(lambda: assign(1.0, 1), TensorIndexError, ["1.0 is not an index"]),
    ErrorCase(lambda: assign(slice(None, None, 0), 1), ArgumentValueError, ["step other than 0"]),
    ErrorCase(lambda: assign(ROW_MASK[:2], 1), TensorIndexError, ["(2,)", "(3, 4, 5)"]),
    ErrorCase(
        lambda: assign(plugrad.asarray(ROW_MASK[:2]), 1), TensorIndexError, ["(2,)", "(3, 4, 5)"]
    ),
    ErrorCase(lambda: assign(0, [1, 2]), ShapeError, ["(2,)", "does not broadcast", "(4, 5)"]),
    ErrorCase(lambda: assign((0, 0, 0), [1, 2]), ShapeError, ["(2,)", "does not broadcast", "()"]),
    ErrorCase(lambda: assign(IS_EVEN, [1, 2]), ShapeError, ["(2,)", "does not broadcast", "(30,)"]),
    ErrorCase(
        lambda: assign(ROW_MASK, [[1, 2]]), ShapeError, ["(1, 2)", "does not broadcast", "5)"]
    ),
    ErrorCase(lambda: assign([0, 1], [1, 2, 3]), ShapeError, ["(3,)", "(2, 4, 5)"]),
    ErrorCase(
        lambda: assign(0, 0.5), DTypeError, ["float32", "int32 does not hold", "astype('int32')"]
    ),
    ErrorCase(lambda: assign(0, [0.5]), DTypeError, ["float32", "int32 does not hold"]),
    ErrorCase(lambda: assign(0, np.int64(1)), DTypeError, ["int64", "int32 does not hold"]),
    ErrorCase(lambda: assign(0, plugrad.ones(5)), DTypeError, ["float32", "int32 does not hold"]),
    ErrorCase(lambda: assign(0, "a"), DTypeError, ["string", "int32 does not hold"]),
    ErrorCase(lambda: assign(0, ["a"]), DTypeError, ["string", "int32 does not hold"]),
    ErrorCase(lambda: assign(0, 1, plugrad.asarray(["a"])), DTypeError, ["string does not hold"]),
    ErrorCase(lambda: assign(0, True, plugrad.asarray([1j])[:0]), TensorIndexError, ["size 0"]),
    ErrorCase(
        lambda: assign(0, 2**40), ArgumentValueError, ["1099511627776", "does not fit int32"]
    ),
    ErrorCase(
        lambda: assign(0, [2**40]), ArgumentValueError, ["1099511627776", "does not fit int32"]
    ),
    ErrorCase(lambda: assign(0, None), ArgumentError, ["item assignment", "NoneType"]),
    ErrorCase(lambda: assign(0, 1.0, disposed_tensor()), DisposedTensor, ["disposed"]),
    ErrorCase(lambda: assign(0, disposed_tensor()), DisposedTensor, ["disposed"]),
]


@pytest.mark.rows("error_case", REJECTED_ASSIGNMENTS, ids=str)
def test_errors_of_invalid_assignments(error_case, backend):
    error_case.check()


def test_failed_assignment_changes_nothing(backend):
    x = cube_tensor()
    with pytest.raises(ShapeError):
        x[0] = [1, 2]
    np.testing.assert_array_equal(x.numpy(), CUBE)
    if backend != "cpu":
        with pytest.raises(BackendMismatch, match=f"{backend}:0"):
            x[0] = plugrad.asarray(1, device="cpu")


def test_a_traced_function_assigns_to_copies_of_tensors_from_outside():
    outside, x = plugrad.zeros(2), plugrad.asarray([3.0, 5.0])

    def replace_first(value):
        y = +outside
        y[0] = value
        return y

    def change_outside(value):
        outside[0] = plugrad.sum(value)

    for transform in (plugrad.vmap, lambda f: plugrad.jit(plugrad.vmap(f))):
        replaced = transform(replace_first)
        assert replaced(x).tolist() == [[3, 0], [5, 0]]
        gradient = plugrad.grad(lambda x, f=replaced: plugrad.sum(f(x) ** 2))
        assert gradient(x).tolist() == [6, 10]
    assert plugrad.jit(replace_first)(x[0]).tolist() == [3, 0]
    for transform in (plugrad.vmap, plugrad.jit, lambda f: plugrad.jit(plugrad.vmap(f))):
        with pytest.raises(TracingError, match=r"made outside .* change a copy, as in y = \+x"):
            transform(change_outside)(x)
    assert outside.tolist() == [0, 0]
