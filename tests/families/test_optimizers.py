"""Steps of optimizers for lists of variables; tests/core/test_optimizers.py has the optimizers themselves."""

import numpy as np
import pytest

import plugrad
from families.case import conformance_cases
from plugrad import optimizers
from plugrad.errors import DTypeError, ShapeError
from plugrad.kernels import optimizers as kernels

SHAPES = [(3, 4), (), (0, 2), (90, 800), (17,)]
DTYPES = ["float32", "float16", "float64"]
OPTIMIZER_FACTORIES = {
    "SGD": lambda: optimizers.SGD(0.1),
    "Momentum": lambda: optimizers.Momentum(0.1, nesterov=True),
    "Adagrad": lambda: optimizers.Adagrad(0.1),
    "Adadelta": lambda: optimizers.Adadelta(1.0),
    "RMSProp": lambda: optimizers.RMSProp(0.01, momentum=0.5),
    "centered": lambda: optimizers.RMSProp(0.01, centered=True),
    "AdamW": lambda: optimizers.AdamW(0.1),
    "Adamax": lambda: optimizers.Adamax(0.1),
}


@pytest.mark.rows("case", conformance_cases("optimizers"), ids=str)
def test_values(case, backend, rng):
    case.check_values(rng, case.main_dtype)


def values_and_states(optimizer, variables):
    """Return the values of variables, and their optimizer states."""
    states = optimizer.get_state(variables)["variables"]
    return [v.numpy() for v in variables] + [np.asarray(x) for s in states for x in s.values()]


@pytest.mark.parametrize("name", OPTIMIZER_FACTORIES)
def test_many_variables_move_as_each_would_alone(name, backend, rng):
    """The variables have several dtypes, one occurs twice in a step, and some join later."""
    has = plugrad.which().backend.dtypes()
    dtypes = [d for d in DTYPES if plugrad.as_dtype(d) in has]
    first = [plugrad.asarray(rng.normal(size=s), dtype=d) for s in SHAPES for d in dtypes]
    together, alone = OPTIMIZER_FACTORIES[name](), OPTIMIZER_FACTORIES[name]()
    moved, apart = ([plugrad.Variable(x) for x in first] for _ in range(2))
    for count in (3, len(first), len(first)):
        order = [*range(count), 1]
        steps = [
            plugrad.asarray(rng.normal(size=first[i].shape), dtype=first[i].dtype) for i in order
        ]
        together.apply_gradients([(moved[i], g) for i, g in zip(order, steps, strict=True)])
        for i, g in zip(order, steps, strict=True):
            alone.apply_gradients([(apart[i], g)])
    for a, b in zip(
        values_and_states(together, moved), values_and_states(alone, apart), strict=True
    ):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("is_traced", [False, True], ids=["untraced", "traced"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [*OPTIMIZER_FACTORIES, "Adam", "NAdam", "RAdam", "Lion"])
def test_steps_of_halves_are_those_of_float32(name, dtype, is_traced, backend):
    """The squares of some gradients are 0 in float16, as is the epsilon of Adam."""
    make = OPTIMIZER_FACTORIES.get(name) or getattr(optimizers, name)
    half = plugrad.Variable(plugrad.asarray([1.0, 2.0, -3.0, 4.0], dtype=dtype))
    wide = plugrad.Variable(half.astype("float32"))
    half_steps, wide_steps = make(), make()

    def step(gradient):
        wide.assign(half.astype("float32"))
        half_steps.apply_gradients([(half, gradient)])
        wide_steps.apply_gradients([(wide, gradient.astype("float32"))])

    run = plugrad.jit(step) if is_traced else step
    for gradient in ([0, 1e-4, 1, -1e-3], [0, 0, 3, -1e-6], [0, 1e-3, 0, 0], [0, 0, 0, 0]):
        run(plugrad.asarray(gradient, dtype=dtype))
        np.testing.assert_array_equal(half.numpy(), wide.astype(dtype).numpy())
    assert np.isfinite(wide.numpy()).all()
    for x, y in zip(
        values_and_states(half_steps, [half])[1:],
        values_and_states(wide_steps, [wide])[1:],
        strict=True,
    ):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_a_state_in_halves_is_continued_in_float32(backend):
    w, optimizer = plugrad.Variable(np.ones(2, "float16")), optimizers.Adam()
    slots = {"m": np.ones(2, "float16"), "s": np.ones(2, "float16")}
    optimizer.set_state([w], {"iterations": 1, "variables": [{"steps": 1, **slots}]})
    optimizer.apply_gradients([(w, plugrad.zeros_like(w))])
    (found,) = optimizer.get_state([w])["variables"]
    np.testing.assert_allclose(found["s"], np.full(2, 0.999, "float32"), rtol=1e-7)


def test_a_step_is_one_call_for_each_dtype():
    variables = [plugrad.Variable(np.ones(5, d)) for d in ("float32", "float64") for _ in range(9)]
    pairs = [(v, v * 0.5) for v in variables]
    optimizer = optimizers.Adam()
    with plugrad.use("cpu"):
        optimizer.apply_gradients(pairs)
        with plugrad.profile() as measured:
            optimizer.apply_gradients(pairs)
    assert {k.kernel: k.calls for k in measured.kernels} == {"ApplyAdam": 2}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2,), (3,), (3,)], "1 coefficients, not of shape"),
        ([(1,), (3,)], "1 tensors follow the coefficients, which must be 2 lists of one length"),
        ([(1,), (3,), (), (3,), (2,)], r"a variable has shape \(\); .* not \(2,\)"),
    ],
)
def test_lists_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ShapeError, match=message):
        kernels.gradient_descent(*(plugrad.zeros(s) for s in shapes))


def test_other_dtypes_are_refused():
    x = plugrad.zeros(1, dtype="float16")
    with pytest.raises(DTypeError, match="ApplyGradientDescent does not take float16"):
        kernels.gradient_descent(x, x, x)
    y = plugrad.zeros(1, dtype="float64")
    with pytest.raises(DTypeError, match="the inputs have dtypes float32, float64"):
        kernels.gradient_descent(y.astype("float32"), y, y)
