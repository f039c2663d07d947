"""NumPy's functions on tensors: values, gradients, devices, and errors where plugrad has no such function."""

import inspect
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
from numpy.testing import overrides

import plugrad
from core.numpy_calls import DIFFERENTIABLE_CALLS, MATRIX, OTHER_CALLS
from plugrad.errors import ArgumentError, GradientLost
from plugrad.ops import numpy_table
from plugrad.ops.array_functions import bind_parameters, find_numpy_function

pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # since 2.5
DIFFERENCE_STEP = 1e-6
FUNCTIONS_OF_NEWER_NUMPY = {
    "unstack",
    "cumulative_prod",
    "cumulative_sum",
}  # NumPy has them from version 2.1 on


def result_arrays(result):
    """Return the arrays in a result."""
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in result_arrays(part)]
    return [result]


def distinct_weights(part):
    return np.cos(np.arange(part.size) * 1.7 + 0.3).reshape(part.shape)


def weighted_sum(result):
    """Return a weighted sum of all floating elements of a result."""
    sums = [
        np.sum(part * distinct_weights(part))
        for part in result_arrays(result)
        if np.asarray(part).dtype.kind in "fc"
    ]
    return float(np.real(sum(sums)))


def numeric_gradient(call):
    """Return the gradient of the weighted sum of a call's result, by central differences."""
    found = np.zeros_like(MATRIX)
    for place in np.ndindex(MATRIX.shape):
        ends = []
        for step in (DIFFERENCE_STEP, -DIFFERENCE_STEP):
            x = MATRIX.copy()
            x[place] += step
            ends.append(weighted_sum(call(x)))
        found[place] = (ends[0] - ends[1]) / (2 * DIFFERENCE_STEP)
    return found


def find_gradient_problem(call):
    """Return the problem of the gradient of a call: "" if there is none, "raises" for a TypeError."""
    kinds = []

    def function(x):
        # The second factor has a gradient of its own, so that a lost one does not go unnoticed.
        parts = []
        for part in result_arrays(call(x)):
            is_tensor = isinstance(part, plugrad.Tensor)
            kinds.append((is_tensor, np.dtype(getattr(part.dtype, "numpy", part.dtype)).kind))
            if kinds[-1][1] in "fc":
                part = plugrad.asarray(part)
                parts.append(
                    plugrad.sum(plugrad.real(part * plugrad.asarray(distinct_weights(part))))
                )
        return plugrad.add_n(parts or [plugrad.sum(x) * 0]) * plugrad.exp(plugrad.sum(x))

    try:
        gradient = plugrad.grad(function)(plugrad.asarray(MATRIX)).numpy()
    except TypeError as error:
        return f"raises {type(error).__name__}: {error}"
    if any(kind in "fc" and not is_tensor for is_tensor, kind in kinds):
        return "an array of NumPy without an error"
    expected = (numeric_gradient(call) + weighted_sum(call(MATRIX.copy()))) * np.exp(MATRIX.sum())
    if not np.allclose(gradient, expected, rtol=1e-6, atol=1e-7):
        return f"gradient {gradient.round(5).tolist()} instead of {expected.round(5).tolist()}"
    return ""


def test_the_table_has_a_call_of_each_function():
    known = {
        name
        for name in numpy_table.OP_OF_NUMPY_FUNCTION
        if name not in FUNCTIONS_OF_NEWER_NUMPY or hasattr(np, name)
    }
    assert (
        DIFFERENTIABLE_CALLS.keys() - FUNCTIONS_OF_NEWER_NUMPY == known - FUNCTIONS_OF_NEWER_NUMPY
    )
    assert len(DIFFERENTIABLE_CALLS) + len(OTHER_CALLS) > 150


@pytest.mark.parametrize(
    "name", [n for n in DIFFERENTIABLE_CALLS if n not in FUNCTIONS_OF_NEWER_NUMPY or hasattr(np, n)]
)
def test_gradient_matches_finite_differences(name):
    assert find_gradient_problem(DIFFERENTIABLE_CALLS[name]) == ""


@pytest.mark.parametrize("name", OTHER_CALLS)
def test_gradient_of_other_functions_is_right_or_an_error(name):
    found = find_gradient_problem(OTHER_CALLS[name])
    assert not found or found.startswith(("raises ArgumentError", "raises GradientLost"))


def test_the_check_finds_a_gradient_that_is_lost(monkeypatch):
    stops = numpy_table.OpForNumpyFunction(
        lambda arrays, axis=0: plugrad.stop_gradient(plugrad.concat(arrays, axis=axis))
    )
    monkeypatch.setitem(numpy_table.OP_OF_NUMPY_FUNCTION, "concatenate", stops)
    assert "instead of" in find_gradient_problem(DIFFERENTIABLE_CALLS["concatenate"])
    monkeypatch.setattr(plugrad.Tensor, "is_being_differentiated", lambda x: False)
    assert find_gradient_problem(OTHER_CALLS["x.numpy()"]) == "an array of NumPy without an error"


# --- values and devices -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n for n in DIFFERENTIABLE_CALLS if n not in FUNCTIONS_OF_NEWER_NUMPY or hasattr(np, n)]
)
def test_values_match_numpy_and_stay_on_the_device(name, backend):
    has_doubles = plugrad.complex128 in plugrad.which().backend.dtypes()
    dtype, tolerance = ("float64", 1e-9) if has_doubles else ("float32", 2e-4)
    x = plugrad.asarray(MATRIX, dtype=dtype)
    with plugrad.config.override("unsupported_dtype", "silent"), plugrad.use("cpu"):
        found = result_arrays(DIFFERENTIABLE_CALLS[name](x))
    expected = result_arrays(DIFFERENTIABLE_CALLS[name](MATRIX.astype(dtype)))
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
        if name not in numpy_table.FUNCTIONS_ALSO_FOR_NUMPY_ARRAYS:
            assert mine.device == x.device


@pytest.mark.parametrize("name", sorted(numpy_table.FUNCTIONS_ALSO_FOR_NUMPY_ARRAYS))
def test_libraries_get_numpy_arrays_unless_tensors_are_differentiated(name, backend):
    x, kinds = plugrad.ones((3, 4)), []

    def note(x):
        args = (x, 2.0) if name == "full_like" else (x,)
        kinds.append(type(result_arrays(getattr(np, name)(*args))[0]))
        return plugrad.sum(x)

    note(x)
    plugrad.grad(note)(x)
    plugrad.jit(note)(x)
    assert kinds == [np.ndarray, plugrad.Tensor, plugrad.Tensor]


def test_new_arrays_do_not_read_the_tensor(backend, monkeypatch):
    x = plugrad.ones((2, 3), dtype="int32")
    monkeypatch.setattr(type(x.backend), "to_numpy", lambda *_: pytest.fail("values are read"))
    for made in (np.zeros_like(x), np.full_like(x, 7), np.ones_like(x, dtype="f4", shape=4)):
        made[0] = 1
    assert (made.dtype, made.tolist()) == (np.float32, [1, 1, 1, 1])


def test_numpys_functions_are_traced(backend):
    x = plugrad.asarray([[1.0, -2.0], [3.0, 4.0]])

    def function(x):
        longer = np.concatenate([x, np.ones((1, 2), "f4")])
        return np.linalg.norm(longer, axis=1) + np.sum(x)

    compiled = plugrad.jit(plugrad.grad(lambda x: plugrad.sum(function(x))))
    expected = plugrad.grad(lambda x: plugrad.sum(function(x)))(x).numpy()
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-6)


def test_lists_may_hold_tensors_and_arrays(backend):
    x = plugrad.asarray([1.0, 2.0])
    assert np.concatenate([np.float32([5]), x, [3.0]]).tolist() == [5, 1, 2, 3]
    assert np.vstack([x, [x[1], x[0]]]).tolist() == [[1, 2], [2, 1]]
    texts, values = np.broadcast_arrays(np.array("a"), [x[0], 7.0])
    assert (texts.tolist(), values.tolist()) == (["a", "a"], [1, 7])
    assert np.concatenate(plugrad.asarray([[1, 2], [3, 4]])).tolist() == [1, 2, 3, 4]
    assert np.where([True, False], x, np.float32(9)).tolist() == [1, 9]


def test_like_argument_creates_a_tensor_on_the_device(backend):
    x = plugrad.zeros(2)
    with plugrad.use("cpu"):
        made = [
            np.asarray([1.0, 2.0], like=x),
            np.array([1, 2], dtype="int32", like=x),
            np.zeros((2, 3), like=x),
            np.ones(2, like=x),
            np.full(3, 7.0, like=x),
            np.arange(1, 4, like=x),
            np.eye(2, 3, like=x),
            np.identity(2, like=x),
        ]
    assert {(type(y), y.device) for y in made} == {(plugrad.Tensor, x.device)}
    assert [y.shape for y in made] == [(2,), (2,), (2, 3), (2,), (3,), (3,), (2, 3), (2, 2)]
    assert made[1].dtype == "int32"
    assert made[5].tolist() == [1, 2, 3]
    with pytest.raises(ArgumentError, match=r"np\.fromiter does not take tensors"):
        np.fromiter([1], "i4", like=x)


def test_metadata_functions_read_no_values(backend):
    x = plugrad.asarray([[1.0, 2.0]])

    def function(x):
        assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((1, 2), 2, 2, 2)
        assert np.result_type(x, np.float64, 2) == np.float64
        assert np.can_cast(x.dtype.numpy, "f8")
        assert np.common_type(x, np.float32([1])) is np.float32
        assert (np.iscomplexobj(x), np.isrealobj(x)) == (False, True)
        assert np.triu_indices_from(x)[1].tolist() == [0, 1]
        assert np.allclose(x, [[1, 2]])
        assert np.array_equal([[1, 2]], x)
        assert np.array_repr(x) == "array([[1., 2.]], dtype=float32)"
        return plugrad.sum(x)

    assert plugrad.grad(function)(x).tolist() == [[1, 1]]


def test_numpy_saves_plots_and_copies_what_is_not_differentiated(backend, tmp_path):
    x = plugrad.asarray([1.0, 2.0, 2.5])
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", a=x)
    assert (
        np.load(tmp_path / "x.npy").tolist()
        == np.load(tmp_path / "x.npz")["a"].tolist()
        == x.tolist()
    )
    assert np.histogram(x, bins=2)[0].tolist() == [1, 2]
    a = np.zeros(3, "f4")
    np.copyto(a, x)
    assert a.tolist() == x.tolist()
    for call in (
        lambda x: np.histogram2d(x, x),
        lambda x: np.copyto(a, x),
    ):
        with pytest.raises(GradientLost, match=r"plugrad.stop_gradient\(x\).numpy\(\)"):
            plugrad.grad(call)(x)
    with pytest.raises(
        ArgumentError, match=r"np.copyto does not write into tensors; write x\[...\] = values"
    ):
        np.copyto(x, a)
    np.testing.assert_allclose(x, [1, 2, 2.5])
    np.testing.assert_array_equal(x, x)


# --- errors -------------------------------------------------------------------------------------------


OVERRIDABLE_FUNCTIONS = overrides.get_overridable_numpy_array_functions()


def is_overridable(function):
    try:
        return function in OVERRIDABLE_FUNCTIONS
    except TypeError:  # not hashable, and so no function
        return False


def overridable_by_name():
    """Return NumPy's functions with ``__array_function__``, by name; of several names, only one."""
    found = {}
    for space in ("fft", "linalg", "lib.scimath", "lib.stride_tricks", ""):
        module = find_numpy_function(space) if space else np
        for name in dir(module):
            function = getattr(module, name, None)
            if is_overridable(function):
                found[function] = f"{space}.{name}".removeprefix(".")
    return {name: function for function, name in found.items()}


KNOWN_NAMES = {
    *numpy_table.OP_OF_NUMPY_FUNCTION,
    *numpy_table.CREATION_FUNCTIONS,
    *numpy_table.METADATA_FUNCTIONS,
    *numpy_table.READING_FUNCTIONS,
}
KNOWN_FUNCTIONS = {find_numpy_function(name) for name in KNOWN_NAMES}
UNKNOWN_FUNCTIONS = {
    name: function
    for name, function in overridable_by_name().items()
    if function not in KNOWN_FUNCTIONS
}


@pytest.mark.parametrize("name", sorted(UNKNOWN_FUNCTIONS))
def test_other_functions_raise_an_error_with_a_remedy(name):
    x = plugrad.ones((2, 2))
    with pytest.raises(ArgumentError) as raised:
        x.__array_function__(UNKNOWN_FUNCTIONS[name], (plugrad.Tensor,), (x,), {})
    message = str(raised.value)
    assert name.rpartition(".")[2] in message
    assert "does not take tensors" in message
    assert "x.numpy()" in message
    if name in numpy_table.REPLACEMENT_HINTS:
        assert f"write {numpy_table.REPLACEMENT_HINTS[name]}, or pass" in message


def test_names_in_the_table_exist_in_numpy():
    for name in {*KNOWN_NAMES, *numpy_table.REPLACEMENT_HINTS} - FUNCTIONS_OF_NEWER_NUMPY:
        assert find_numpy_function(name) in OVERRIDABLE_FUNCTIONS, name
    assert numpy_table.OP_OF_NUMPY_FUNCTION.keys() >= numpy_table.FUNCTIONS_ALSO_FOR_NUMPY_ARRAYS
    assert numpy_table.FUNCTIONS_NOT_RETURNING_ARRAYS <= numpy_table.READING_FUNCTIONS
    groups = [
        numpy_table.OP_OF_NUMPY_FUNCTION,
        numpy_table.CREATION_FUNCTIONS,
        numpy_table.METADATA_FUNCTIONS,
        numpy_table.READING_FUNCTIONS,
        numpy_table.REPLACEMENT_HINTS,
    ]
    assert sum(map(len, groups)) == len({name for group in groups for name in group})


REASONS_WITHOUT_DISPATCH = {
    "linspace": "its ends are numbers",
    "asarray": "it is where arrays come from",
    "from_dlpack": "it is where arrays come from",
}


def test_the_array_api_functions_that_numpy_dispatches_are_in_the_table():
    for space in ("", "linalg", "fft"):
        module = getattr(array_api_strict, space) if space else array_api_strict
        for name in module.__all__:
            full = f"{space}.{name}".removeprefix(".")
            if is_overridable(find_numpy_function(full)) and full not in REASONS_WITHOUT_DISPATCH:
                assert find_numpy_function(full) in KNOWN_FUNCTIONS, full


def test_ops_of_plugrad_that_numpy_dispatches_are_in_the_table():
    for space in ("", "linalg", "fft"):
        for name in dir(getattr(plugrad, space) if space else plugrad):
            full = f"{space}.{name}".removeprefix(".")
            if is_overridable(find_numpy_function(full)) and full not in REASONS_WITHOUT_DISPATCH:
                assert find_numpy_function(full) in KNOWN_FUNCTIONS, full


@pytest.mark.parametrize("name", sorted(numpy_table.OP_OF_NUMPY_FUNCTION))
def test_options_that_plugrad_lacks_are_named(name, monkeypatch):
    monkeypatch.setattr(plugrad.Tensor, "is_being_differentiated", lambda x: True)
    function = find_numpy_function(name)
    if function is None:
        pytest.skip(f"this NumPy has no {name}")
    op = numpy_table.OP_OF_NUMPY_FUNCTION[name]
    known = bind_parameters(function, op.function, tuple(op.renamed_parameters.items()))
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        pytest.skip("this NumPy does not tell the signature")
    required = [
        p for p in parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL
    ]
    x = plugrad.ones((2, 2))
    for option, parameter in parameters.items():
        if (
            option in known.keywords
            or option in known.positional
            or parameter.kind is parameter.VAR_KEYWORD
        ):
            continue
        with pytest.raises(ArgumentError) as raised:
            x.__array_function__(
                function, (plugrad.Tensor,), (x,) * len(required), {option: object()}
            )
        words = (
            "does not write tensors into arrays"
            if option == "out"
            else f"with {option} does not take"
        )
        assert f"np.{name} {words}" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: np.pad(x, 1, mode="mean"), ["mode='mean'", "'reflect'"]),
        (lambda x: np.pad(x, 1, mode="mean", stat_length=2), ["np.pad with stat_length"]),
        (
            lambda x: np.pad(x, 1, constant_values=(1, 2)),
            ["constant_values=(1, 2)", "np.concatenate"],
        ),
        (lambda x: np.pad(x, ((1, 2), (3, 4), (5, 6))), ["pad_width=", "2 axes"]),
        (lambda x: np.split(x, 3), ["3 sections", "np.array_split"]),
        (lambda x: np.array_split(x, 0), ["0 sections"]),
        (lambda x: np.einsum(x, [0, 1], [1, 0]), ["einsum", "np.einsum('ij,jk->ik'"]),
        (lambda x: np.average(x, weights=np.ones(3)), ["weights of shape (3,)", "(2, 2)"]),
        (lambda x: np.linalg.norm(x[None], 2), ["ord=2", "3 axes"]),
        (lambda x: np.unique(x, axis=0, return_counts=True), ["return_counts", "plugrad.unique"]),
        (lambda x: np.where(x, x, None), ["two arrays"]),
        (lambda x: np.convolve(x, x), ["(2, 2)", "vectors"]),
        (lambda x: np.convolve(x[0], x[0], "half"), ["mode='half'", "'same'"]),
        (lambda x: np.select([x > 0], []), ["1 conditions for 0 choices"]),
        (lambda x: np.linalg.multi_dot([x]), ["1 matrices"]),
        (lambda x: np.rollaxis(x, 0, 5), ["start=5", "0 to 2"]),
        (lambda x: np.expand_dims(x, (0, 0)), ["axis=(0, 0)", "twice"]),
    ],
)
def test_arguments_are_checked(call, words):
    with pytest.raises(plugrad.errors.PlugradError) as raised:
        call(plugrad.ones((2, 2)))
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize("kind", [np.ma.MaskedArray, np.matrix])
def test_numpy_functions_defer_to_other_array_types(kind):
    with pytest.raises(TypeError, match="no implementation found"):
        np.concatenate([plugrad.ones((2, 2)), np.ones((2, 2)).view(kind)])


def test_numpy_functions_are_imported_lazily():
    program = (
        "import sys, numpy, plugrad; x = plugrad.ones(2) + 1; numpy.exp(x)\n"
        "names = [f'plugrad.ops.{n}' for n in ('array_functions', 'numpy_table', 'numpy_functions', 'numpy_shapes')]\n"
        "assert not any(n in sys.modules for n in names)\n"
        "numpy.sum(x); assert all(n in sys.modules for n in names)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
