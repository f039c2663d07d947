"""Variables: tensors whose value changes, and gradients with respect to them."""

import copy

import pytest

import plugrad
from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, ShapeError

tensor = plugrad.asarray


# --- assignment -----------------------------------------------------------------------------------


def test_variable_is_a_tensor_with_a_replaceable_value():
    w = plugrad.Variable([1.0, 2.0], name="w")
    before = w * 1
    w.assign([3.0, 4.0])
    assert (w.tolist(), before.tolist(), w.trainable) == ([3.0, 4.0], [1.0, 2.0], True)
    w.assign(w + 1)
    assert (w + w).tolist() == [8.0, 10.0]


def test_assignment_keeps_shape_and_dtype():
    w = plugrad.Variable([1.0, 2.0], name="w")
    with pytest.raises(ShapeError, match=r"variable 'w' has shape \(2,\), the new value \(3,\)"):
        w.assign([1.0, 2.0, 3.0])
    with pytest.raises(
        DTypeError, match="variable 'w' has dtype float32, the new value int32; cast it"
    ):
        w.assign(plugrad.asarray([1, 2]))
    assert w.tolist() == [1.0, 2.0]


def test_variable_does_not_follow_its_initial_tensor():
    x = tensor([1.0, 2.0])
    w = plugrad.Variable(x)
    w.assign(x * 0)
    assert x.tolist() == [1.0, 2.0]
    x.dispose()
    assert w.tolist() == [0.0, 0.0]


# --- gradients ------------------------------------------------------------------------------------


def test_variable_gradients_have_the_requested_order():
    a, b = plugrad.Variable([1.0, 2.0], name="a"), plugrad.Variable(3.0, name="b")
    value, (db, da) = plugrad.variable_grads(lambda: plugrad.sum(a * a) * b, [b, a])
    assert (value.item(), db.item(), da.tolist()) == (15.0, 5.0, [6.0, 12.0])
    assert value.node is None


def test_variables_that_are_not_asked_for_are_constants():
    a, b = plugrad.Variable(2.0), plugrad.Variable(3.0)
    assert plugrad.variable_grads(lambda: a * b, [a])[1][0].item() == 3.0


def test_unused_variable_is_an_error_unless_allowed():
    a, b = plugrad.Variable(2.0, name="weight"), plugrad.Variable(3.0)
    with pytest.raises(
        GradientNotFound, match="does not depend on variable 'weight'; pass allow_unused"
    ):
        plugrad.variable_grads(lambda: b * b, [a, b])
    gradients = plugrad.variable_grads(lambda: b * b, [a, b], allow_unused=True)[1]
    assert [g.item() for g in gradients] == [0.0, 6.0]


@pytest.mark.parametrize("wrong", [[], [tensor(1.0)], [3.0]])
def test_variable_grads_needs_variables(wrong):
    with pytest.raises(ArgumentError, match="give a list of different Variables"):
        plugrad.variable_grads(lambda: tensor(1.0), wrong)


def test_untrainable_variables_are_constants():
    a, b, c = (plugrad.Variable(float(i), trainable=i != 2, name=f"v{i}") for i in (1, 2, 3))
    value, gradients = plugrad.variable_grads(lambda: a * b * c, [c, b, a])
    assert (value.item(), [g.item() for g in gradients]) == (6.0, [2.0, 6.0])
    b.trainable = True
    assert [g.item() for g in plugrad.variable_grads(lambda: a * b * c, [c, b, a])[1]] == [2, 3, 6]


def test_untrainable_variables_may_be_unused_and_hold_integers():
    w, steps = plugrad.Variable(3.0), plugrad.Variable(4, trainable=False)
    assert plugrad.variable_grads(lambda: w * w, [steps, w])[1][0].item() == 6.0
    assert plugrad.variable_grads(lambda: w * steps, [steps, w])[1][0].item() == 4.0


@pytest.mark.parametrize("count", [1, 2])
def test_one_variable_must_be_trainable(count):
    frozen = [plugrad.Variable(1.0, trainable=False) for _ in range(count)]
    optimizer = plugrad.optimizers.SGD(0.1)
    for op, call in [
        ("variable_grads", lambda: plugrad.variable_grads(lambda: frozen[0] * 2, frozen)),
        ("minimize", lambda: optimizer.minimize(lambda: frozen[0] * 2, frozen)),
    ]:
        with pytest.raises(
            ArgumentError, match=f"{op}: none of the {count} variables is trainable; set trainable"
        ):
            call()
    assert (optimizer.iterations, frozen[0].item()) == (0, 1.0)


def test_minimize_leaves_untrainable_variables_alone(backend):
    w, fixed = plugrad.Variable([1.0, 2.0]), plugrad.Variable([3.0, 4.0], trainable=False)
    optimizer = plugrad.optimizers.Momentum(0.25)
    value = optimizer.minimize(lambda: plugrad.sum(w * fixed), [fixed, w])
    assert (value.item(), w.tolist(), fixed.tolist()) == (11.0, [0.25, 1.0], [3.0, 4.0])
    assert [entry["steps"] for entry in optimizer.get_state([fixed, w])["variables"]] == [0, 1]


def test_trainable_must_be_a_bool():
    with pytest.raises(ArgumentError, match="Variable: trainable='no' must be True or False"):
        plugrad.Variable(1.0, trainable="no")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_of_variables_keep_their_properties(copied):
    w = plugrad.Variable([1.0, 2.0], trainable=False, name="w")
    v = copied(w)
    v.assign([5.0, 6.0])
    assert (type(v), v.tolist(), v.trainable, v.name) == (plugrad.Variable, [5.0, 6.0], False, "w")
    assert w.tolist() == [1.0, 2.0]


def test_deep_copies_of_containers_share_variables_as_the_originals_do():
    w = plugrad.Variable([1.0], trainable=False, name="w")
    held = copy.deepcopy({"w": w, "again": [w]})
    assert held["again"][0] is held["w"] is not w
    assert (held["w"].trainable, held["w"].name) == (False, "w")


def test_variable_named_twice_is_refused():
    w = plugrad.Variable(1.0)
    with pytest.raises(ArgumentError, match="different Variables"):
        plugrad.variable_grads(lambda: w * w, [w, w])


def test_whole_number_variables_have_no_gradient():
    w = plugrad.Variable([1, 2])
    with pytest.raises(DTypeError, match="variable is int32"):
        plugrad.variable_grads(lambda: plugrad.sum(w * 1.0), [w])


def test_gradients_include_only_reads_before_an_assignment():
    w = plugrad.Variable(3.0)

    def f():
        before = w * w
        w.assign(10.0)
        return before + w * 5

    value, (gradient,) = plugrad.variable_grads(f, [w])
    assert (value.item(), gradient.item(), w.item()) == (59.0, 6.0, 10.0)


def test_assigned_value_passes_no_gradient_back():
    w = plugrad.Variable(3.0)
    plugrad.variable_grads(lambda: (w * w, w.assign(w * 2))[0], [w])
    assert w.node is None
    assert plugrad.grad(lambda x: x * w)(1.0).item() == 6.0


def test_gradient_by_argument_and_by_variable_nest():
    w = plugrad.Variable(2.0)

    def f(x):
        _, (dw,) = plugrad.variable_grads(lambda: w * w * x * x, [w])  # 2 w x^2
        return dw

    assert f(tensor(3.0)).item() == 36.0
    assert plugrad.grad(f)(3.0).item() == 24.0  # 4 w x
    _, (gradient,) = plugrad.variable_grads(lambda: plugrad.grad(lambda x: w * w * x)(1.0), [w])
    assert gradient.item() == 4.0


def test_variable_gradient_of_a_variable_gradient():
    w = plugrad.Variable(2.0)
    inner = lambda: plugrad.variable_grads(lambda: w * w * w, [w])[1][0]  # noqa: E731
    value, (second,) = plugrad.variable_grads(inner, [w])
    assert (value.item(), second.item()) == (12.0, 12.0)


def test_error_inside_leaves_variables_untouched():
    w = plugrad.Variable(2.0)
    with pytest.raises(ZeroDivisionError):
        plugrad.variable_grads(lambda: 1 / 0, [w])
    assert (w * w).node is None
