"""Functions that change gradients, the steps that begin with them, and groups of variables."""

import pickle

import numpy as np
import pytest

import plugrad
from core.test_optimizers import OPTIMIZERS_LIKE_TORCHS, START, TORCH_RECORD, non_quadratic_loss
from core.traced_values import count_traces
from plugrad import optimizers
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError

GRADIENT = np.array([[1.0, -2.0], [4.0, 8.0], [0.5, 3.0]], np.float32)


def global_clip(gradients):
    return optimizers.clip_by_global_norm(gradients, 1.0)


def test_each_gradient_is_clipped_by_its_own_norm(backend):
    clipped = optimizers.clip_by_norm([plugrad.asarray([3.0, 4.0]), plugrad.asarray(0.5)], 1.0)
    np.testing.assert_allclose(clipped[0], [0.6, 0.8], rtol=1e-6)
    assert clipped[1].item() == 0.5
    (same,) = optimizers.clip_by_norm([plugrad.asarray(GRADIENT)], float("inf"))
    np.testing.assert_array_equal(same, GRADIENT)


def test_gradients_are_centralized_for_each_output(backend):
    kernel, bias, empty = optimizers.centralize(
        [
            plugrad.asarray(GRADIENT.reshape(3, 1, 2)),
            plugrad.asarray(GRADIENT[0]),
            plugrad.zeros((0, 3)),
        ]
    )
    np.testing.assert_allclose(kernel.numpy()[:, 0], GRADIENT - GRADIENT.mean(0), atol=1e-6)
    np.testing.assert_array_equal(bias, GRADIENT[0])
    assert empty.shape == (0, 3)


def test_noise_has_its_deviation_and_its_own_numbers_in_each_step(backend):
    w, generator = plugrad.Variable(np.zeros(2000, np.float32)), plugrad.random.Generator(3)
    optimizer = optimizers.SGD(1.0)
    optimizer.with_transforms(
        lambda gradients: optimizers.add_noise(
            gradients, generator, lambda: 2.0 / (1 + optimizer.iterations)
        )
    )
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(w) * 0, [w]))
    places = [w.numpy()]
    for _ in range(3):
        step()
        places.append(w.numpy())
    moves = np.diff(places, axis=0)
    assert count_traces(step) == 1
    np.testing.assert_allclose(moves.std(1), [2, 1, 2 / 3], rtol=0.1)
    assert abs(np.corrcoef(moves)[0, 1:]).max() < 0.1
    drawn = plugrad.random.Generator(3).standard_normal((2000,))
    np.testing.assert_allclose(-moves[0], drawn.numpy() * 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_traced", [False, True])
def test_steps_begin_with_the_transforms(is_traced, backend):
    """Gradients are centralized, then clipped by their global norm: compared with the formula in NumPy."""
    w, b = plugrad.Variable(np.zeros((3, 2), np.float32)), plugrad.Variable([0.0, 0.0])
    optimizer = optimizers.SGD(0.5).with_transforms(optimizers.centralize, global_clip)

    def step():
        return optimizer.minimize(
            lambda: plugrad.sum(w * GRADIENT) + plugrad.sum(b * GRADIENT[0]), [w, b]
        )

    step = plugrad.jit(step) if is_traced else step
    step()
    centred = GRADIENT - GRADIENT.mean(0)
    norm = np.sqrt((centred**2).sum() + (GRADIENT[0] ** 2).sum())
    np.testing.assert_allclose(w, -0.5 * centred / norm, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b, -0.5 * GRADIENT[0] / norm, rtol=1e-5)
    optimizer.with_transforms()
    step()  # a traced program is traced again
    np.testing.assert_allclose(b, -0.5 * GRADIENT[0] / norm - 0.5 * GRADIENT[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda g: g[:1],
            ArgumentError,
            "transform .* must return a list of 2 tensors, as many as",
        ),
        (lambda g: None, ArgumentError, "must return a list of 2 tensors.*it returned None"),
        (lambda g: [1.0, 2.0], ArgumentError, "must return a list of 2 tensors"),
        (lambda g: [g[1], g[0]], ShapeError, r"variable 'w' has shape \(2,\), its gradient \(3,\)"),
        (lambda g: [x.astype("float64") for x in g], DTypeError, "cast it"),
    ],
)
def test_failing_gradient_transforms_leave_variables_unchanged(function, error, message):
    w, v = plugrad.Variable([1.0, 2.0], name="w"), plugrad.Variable(np.ones(3, np.float32))
    optimizer = optimizers.Adam().with_transforms(function)
    with pytest.raises(error, match=message):
        optimizer.apply_gradients([(w, plugrad.ones(2)), (v, plugrad.ones(3))])
    assert (w.tolist(), optimizer.iterations) == ([1.0, 2.0], 0)


def test_invalid_transforms_are_rejected():
    with pytest.raises(ArgumentError, match=r"SGD.with_transforms takes a function, not float"):
        optimizers.SGD(0.1).with_transforms(1.0)
    with pytest.raises(ArgumentError, match="generator=0 must be one"):
        optimizers.add_noise([], 0, 1.0)
    with pytest.raises(ArgumentValueError, match="deviation=-1 must be 0 or more"):
        optimizers.add_noise([plugrad.ones(2)], plugrad.random.Generator(0), lambda: -1)


# --- groups of variables --------------------------------------------------------------------------

GROUP_OPTIONS = {
    "AdamW": {"learning_rate": 0.02, "beta1": 0.5, "weight_decay": 0.0},
    "Momentum": {"learning_rate": lambda step: 0.05, "momentum": 0.5},
}


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("name", GROUP_OPTIONS)
def test_group_steps_match_torch(name, is_traced, backend):
    is_double = plugrad.float64 in plugrad.which().backend.dtypes()
    dtype, within = (np.float64, 1e-5) if is_double else (np.float32, 2e-4)
    optimizer = OPTIMIZERS_LIKE_TORCHS[name]()
    v, w = plugrad.Variable(START.astype(dtype)), plugrad.Variable(dtype(0.5))
    optimizer.set_group([w], **GROUP_OPTIONS[name])

    def step():
        return optimizer.minimize(lambda: non_quadratic_loss(v, w), [v, w])

    step = plugrad.jit(step) if is_traced else step
    for place in TORCH_RECORD["groups"][name]:
        step()
        assert [*v.tolist(), w.item()] == pytest.approx(place, rel=within, abs=within)
    assert optimizer.iterations == 20
    assert [s["steps"] for s in optimizer.get_state([v, w])["variables"]] == [20, 20]


@pytest.mark.parametrize("make", OPTIMIZERS_LIKE_TORCHS.values(), ids=OPTIMIZERS_LIKE_TORCHS.keys())
def test_a_group_of_any_optimizer_steps_as_an_optimizer_of_its_own(make, backend):
    """State such as NAdam's products and Adagrad's first sums belongs to the group."""
    first, second, alone = (plugrad.Variable([1.0, -2.0]) for _ in range(3))
    both, single = make(), make()
    both.set_group([second], learning_rate=0.03)
    single.learning_rate = 0.03
    for _ in range(3):
        both.minimize(lambda: plugrad.sum(first**2 + second**2), [first, second])
        single.minimize(lambda: plugrad.sum(alone**2), [alone])
    np.testing.assert_allclose(second, alone, rtol=1e-6)
    assert first.tolist() != second.tolist()


def test_groups_use_the_optimizers_value_of_unset_coefficients():
    w, optimizer = plugrad.Variable([0.0]), optimizers.Momentum(0.5, momentum=0.0)
    optimizer.set_group([w], momentum=0.5)
    assert optimizer.group_of(w) == {"momentum": 0.5}
    optimizer.learning_rate = 1.0
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    optimizer, w = pickle.loads(pickle.dumps((optimizer, w)))
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    assert w.item() == -2.5
    optimizer.set_group([w])  # none of its own any more
    assert optimizer.group_of(w) == {}
    optimizer.apply_gradients([(w, plugrad.ones(1))])
    assert w.item() == -3.5


def test_a_traced_program_follows_a_change_of_groups():
    v, w = plugrad.Variable([0.0]), plugrad.Variable([0.0])
    optimizer = optimizers.SGD(1.0)
    step = plugrad.jit(lambda: optimizer.minimize(lambda: plugrad.sum(v + w), [v, w]))
    step()
    optimizer.set_group([w], learning_rate=0.5)
    step()
    optimizer.set_group([w], learning_rate=0.25)
    step()
    assert (v.item(), w.item()) == (-3.0, -1.75)
    assert count_traces(step) == 2


@pytest.mark.parametrize(
    ("make", "own", "error", "message"),
    [
        (optimizers.AdamW, {"beta1": 1.5}, ArgumentValueError, r"AdamW: beta1=1.5 must be in \[0"),
        (optimizers.AdamW, {"learning_rate": "x"}, ArgumentError, "AdamW: learning_rate='x' must"),
        (optimizers.Adam, {"lr": 0.1}, ArgumentError, "Adam: it has no argument 'lr'"),
        (optimizers.RMSProp, {"centered": True}, ArgumentError, "centered decides what RMSProp"),
    ],
)
def test_coefficients_of_groups_are_checked(make, own, error, message):
    w, optimizer = plugrad.Variable([1.0]), make()
    with pytest.raises(error, match=message):
        optimizer.set_group([w], **own)
    assert optimizer.group_of(w) == {}
    with pytest.raises(ArgumentError, match=r"set_group: 1\.0 is not a Variable"):
        optimizer.set_group([1.0], learning_rate=0.1)


def test_user_defined_optimizer_must_store_its_arguments():
    class OptimizerWithoutArguments(optimizers.SGD):
        def __init__(self, learning_rate, factor):
            super().__init__(learning_rate * factor)

    message = (
        r"OptimizerWithoutArguments does not keep its argument 'factor'.*store it as self.factor"
    )
    with pytest.raises(ArgumentError, match=message):
        OptimizerWithoutArguments(0.1, 2.0).set_group([plugrad.Variable([1.0])], learning_rate=0.5)


def test_failing_group_schedule_counts_no_step():
    v, w = plugrad.Variable([0.0]), plugrad.Variable([0.0])
    optimizer = optimizers.SGD(1.0)
    optimizer.set_group([w], learning_rate=lambda step: 0.1 if step < 1 else -1.0)
    pairs = [(v, plugrad.ones(1)), (w, plugrad.ones(1))]
    optimizer.apply_gradients(pairs)
    with pytest.raises(ArgumentValueError, match=r"learning_rate=-1.0 must be 0 or more"):
        optimizer.apply_gradients(pairs)
    assert (v.item(), optimizer.iterations) == (-1.0, 1)


def test_clipping_limits_may_be_any_type_of_number():
    (found,) = plugrad.optimizers.clip_by_value([plugrad.asarray([-3.0, 0.5])], np.True_)
    assert found.tolist() == [-1.0, 0.5]
