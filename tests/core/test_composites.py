"""Kernels with a body of ops: where the body runs, how it is differentiated, and what goes wrong."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import (
    ArgumentError,
    GradientNotFound,
    KernelFailed,
    KernelNotFound,
    RegistrationError,
)
from plugrad.extend import KernelConfig, Shaped, Spec, composite, float32, gradient, kernel
from plugrad.registry.composites import find_composite
from plugrad.testing import check_gradient
from plugrad.testing.checks import check_values
from plugrad.testing.tables import rows


def declare_kernel(name="Cube", **options):
    @kernel(name, family="test", **options)
    def rule(x: Spec) -> Spec:
        return x

    return rule


def test_a_body_runs_where_the_inputs_live_and_needs_no_setting(fake_backend_name):
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    x = plugrad.asarray([2.0], device=fake_backend_name)
    assert cube(x).device == x.device
    assert cube(x).tolist() == [8.0]
    assert plugrad.get_kernel("Cube", fake_backend_name) is None
    assert plugrad.run_kernel("Cube", {"x": x}).tolist() == [8.0]


def test_an_implementation_of_the_backend_takes_precedence_over_the_body():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    config = KernelConfig("Cube", "cpu", lambda x: x * 0 + 7)
    x = plugrad.asarray([2.0])
    assert cube(x).tolist() == [8.0]
    plugrad.register_kernel(config)
    try:
        assert cube(x).tolist() == [7.0]
    finally:
        plugrad.unregister_kernel("Cube", "cpu")
    assert cube(x).tolist() == [8.0]


def test_the_body_is_differentiated_to_any_order():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    assert plugrad.grad(cube)(2.0).item() == 12
    assert plugrad.grad(plugrad.grad(cube))(2.0).item() == 12
    check_gradient(cube, [0.5, -1.5], order=2, dtype="float64")


def test_an_implementation_without_a_gradient_has_that_of_the_body():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    config = KernelConfig("Cube", "cpu", lambda x: x**3)
    plugrad.register_kernel(config)
    try:
        assert plugrad.grad(cube)(2.0).item() == 12
    finally:
        plugrad.unregister_kernel("Cube", "cpu")


def test_a_registered_gradient_takes_precedence_over_that_of_the_body():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    gradient(cube, x=lambda dy: dy * 100)
    assert plugrad.grad(cube)(2.0).item() == 100


def test_kernel_without_body_or_rule_has_no_gradient():
    declare_kernel()
    config = KernelConfig("Cube", "cpu", lambda x: x**3)
    plugrad.register_kernel(config)
    try:
        with pytest.raises(GradientNotFound, match="Cube"):
            plugrad.grad(lambda x: plugrad.run_kernel("Cube", {"x": x}))(2.0)
    finally:
        plugrad.unregister_kernel("Cube", "cpu")


def test_several_inputs_outputs_and_attributes():
    @kernel("SumAndProduct", family="test")
    def both(a: Spec, b: Spec, *, times: float = 1.0) -> tuple[Spec, Spec]:
        return a, a

    @composite(both)
    def body(a, b, *, times):
        return (a + b) * times, a * b

    a, b = plugrad.asarray([2.0]), plugrad.asarray([5.0])
    assert [y.tolist() for y in both(a, b, times=3.0)] == [[21.0], [10.0]]
    found = plugrad.grads(lambda a, b: both(a, b, times=3.0)[0] + both(a, b, times=3.0)[1])(a, b)
    assert [g.tolist() for g in found] == [[8.0], [5.0]]
    assert plugrad.grad(lambda a: both(a, b)[1])(a).tolist() == [5.0]


def test_lists_absent_inputs_and_complex_numbers():
    @kernel("Total", family="test")
    def total(*inputs: Spec) -> Spec:
        return inputs[0]

    composite(total)(lambda *inputs: sum(inputs[1:], inputs[0] * inputs[0]))
    a, b = plugrad.asarray([2.0]), plugrad.asarray([5.0])
    assert [g.tolist() for g in plugrad.grads(lambda a, b: total(a, b, b))(a, b)] == [[4.0], [2.0]]

    @kernel("Shifted", family="test")
    def shifted(x: Spec, by: Spec | None = None) -> Spec:
        return x

    composite(shifted)(lambda x, by=None: x if by is None else x * by)
    assert shifted(a).tolist() == [2.0]
    assert plugrad.grad(lambda a: shifted(a) * 3)(a).tolist() == [3.0]
    z = plugrad.asarray([1 + 2j])
    composed = plugrad.grad(lambda z: plugrad.real(z * z))(z)
    assert plugrad.grad(lambda z: plugrad.real(shifted(z, z)))(z).tolist() == composed.tolist()


def test_new_tensors_are_made_on_the_device_of_the_inputs(fake_backend_name):
    ones = declare_kernel("PlusOnes")
    composite(ones)(lambda x: x + plugrad.ones(x.shape))
    with plugrad.use("cpu"):
        x = plugrad.asarray([2.0], device=fake_backend_name)
        assert ones(x).tolist() == [3.0]
        assert plugrad.zeros(1).device == "cpu:0"


def test_a_kernel_without_inputs():
    @kernel("Sevens", family="test")
    def sevens(*, count: int) -> Spec:
        return Shaped((count,), float32)

    composite(sevens)(lambda *, count: plugrad.full((count,), 7.0))
    assert sevens(count=2).tolist() == [7.0, 7.0]


def test_profiles_list_the_kernels_of_the_body_instead_of_the_composite():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    with plugrad.profile() as measured:
        cube(plugrad.asarray([2.0]))
    assert [(k.kernel, k.calls) for k in measured.kernels] == [("Multiply", 2)]


def test_intermediate_results_are_released_with_a_tidy_block():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    cube(plugrad.asarray([2.0]))  # the constants of the ops are made once
    before = plugrad.memory().bytes
    x = plugrad.ones(100_000)
    with plugrad.tidy() as scope:
        y = scope.keep(cube(x))
    assert (y.shape, plugrad.memory().bytes - before) == ((100_000,), 800_000)


def test_a_missing_kernel_inside_a_body_is_named(fake_backend_name):
    cube = declare_kernel()
    composite(cube)(plugrad.cosh)
    with pytest.raises(
        KernelNotFound, match="'fake_device' does not implement kernel 'Cosh'"
    ) as found:
        cube(plugrad.asarray([2.0], device=fake_backend_name))
    assert any("Cube" in note for note in found.value.__notes__)


# --- what is wrong --------------------------------------------------------------------------------


def test_a_body_that_calls_its_own_kernel():
    cube, other = declare_kernel(), declare_kernel("Other")
    composite(cube)(lambda x: other(x) * x)
    composite(other)(lambda x: cube(x))
    x = plugrad.asarray([2.0])
    with pytest.raises(
        KernelFailed, match=r"the body of Cube calls Cube itself \(Cube -> Other -> Cube\)"
    ):
        cube(x)
    with pytest.raises(KernelFailed, match="Other -> Cube -> Other"):
        other(x)


def test_the_gradient_of_a_body_that_calls_its_own_kernel():
    cube = declare_kernel()
    composite(cube)(lambda x: cube(x))
    config = KernelConfig("Cube", "cpu", lambda x: x**3)
    plugrad.register_kernel(config)
    try:
        with pytest.raises(KernelFailed, match="calls Cube itself"):
            plugrad.grad(cube)(2.0)
    finally:
        plugrad.unregister_kernel("Cube", "cpu")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: 3, "returned a int; it must return one tensor"),
        (lambda x: [x], r"returned a list of \(Tensor\); it must return one tensor"),
        (lambda x: x > 0, r"returned bool of shape \(1,\)"),
        (
            lambda x: plugrad.zeros(3),
            r"returned float32 of shape \(3,\) on cpu:0; it must return float32 of shape \(1,\)",
        ),
        (lambda x: x.numpy(), "returned a ndarray"),
    ],
)
def test_results_are_compared_with_the_contract(body, message):
    cube = declare_kernel()
    composite(cube)(body)
    with pytest.raises(KernelFailed, match=f"the body of Cube {message}"):
        cube(plugrad.asarray([2.0]))


def test_an_error_in_a_body_names_the_kernel():
    cube = declare_kernel()
    composite(cube)(lambda x: 1 // 0)
    with pytest.raises(KernelFailed, match=r"Cube on backend .cpu.*division"):
        cube(plugrad.asarray([2.0]))


def test_only_a_declared_kernel_may_have_a_body():
    with pytest.raises(ArgumentError, match=r"composite takes a kernel, such as .*, not 'Cube'"):
        composite("Cube")


@pytest.mark.parametrize("body", [lambda: 1, lambda x, y: x, lambda x, *, other: x])
def test_body_parameters_match_the_contract(body):
    with pytest.raises(
        RegistrationError, match=r"the body of Cube .*Define it as in def body\(x\)"
    ):
        composite(declare_kernel())(body)


def test_second_body_for_a_kernel_is_rejected():
    cube = declare_kernel()
    composite(cube)(lambda x: x)
    with pytest.raises(RegistrationError, match="'Cube' has a body of ops already"):
        composite(cube)(lambda x: x)


# --- plugrad's own --------------------------------------------------------------------------------

COMPOSITE_CASES = [row for row in rows() if find_composite(row.kernel) is not None]


def test_plugrad_registers_composites():
    assert len({row.kernel.name for row in COMPOSITE_CASES}) >= 13


@pytest.mark.rows("row", COMPOSITE_CASES, ids=str)
def test_plugrads_composites_match_the_kernels_that_they_replace(row):
    while plugrad.get_kernel(row.kernel.name, "cpu") is not None:  # the fixture brings them back
        plugrad.unregister_kernel(row.kernel.name, "cpu")
    with plugrad.use("cpu"), np.errstate(all="ignore"):
        for dtype in row.tested_dtypes:
            check_values(row, dtype, row.draw_inputs(dtype))


@pytest.mark.parametrize("is_fake", [False, True])
def test_a_traced_program_runs_the_body(is_fake, fake_backend_name):
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    x = plugrad.asarray([2.0, -1.0], device=fake_backend_name if is_fake else None)
    f = plugrad.jit(lambda x: cube(x) * 2)
    assert f(x).tolist() == [16.0, -2.0]
    assert {step.kernel.name for step in f.graph(x).steps} == {"Multiply"}


def test_a_traced_body_is_differentiated_and_a_later_implementation_replaces_it():
    cube = declare_kernel()
    composite(cube)(lambda x: x * x * x)
    x = plugrad.asarray([2.0, -1.0])
    total = plugrad.jit(lambda x: plugrad.sum(cube(x)))
    for derivative in (plugrad.jit(plugrad.grad(total)), plugrad.grad(total)):
        assert derivative(x).tolist() == [12.0, 3.0]
    assert total(x).item() == 7
    plugrad.register_kernel(KernelConfig("Cube", "cpu", lambda x: x * 0 + 7))
    try:
        assert total(x).item() == 14
    finally:
        plugrad.unregister_kernel("Cube", "cpu")
    assert total(x).item() == 7


def test_composite_with_is_traced_is_traced_as_its_ops_despite_an_implementation():
    cube = declare_kernel()
    composite(cube, is_traced=True)(lambda x: x * x * x)
    plugrad.register_kernel(KernelConfig("Cube", "cpu", lambda x: x**3))
    try:
        graph = plugrad.make_graph(cube)(plugrad.asarray([2.0]))
        assert [step.kernel.name for step in graph.steps] == ["Multiply", "Multiply"]
        assert plugrad.jit(cube)(plugrad.asarray([2.0])).tolist() == [8.0]
    finally:
        plugrad.unregister_kernel("Cube", "cpu")
