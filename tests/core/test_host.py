"""Implementations on the host, and kernels that take a list of inputs beside others."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import plugrad
from consistency.coverage import KERNEL_FAMILIES
from plugrad import KernelConfig, host
from plugrad.errors import ArgumentError, KernelNotFound, RegistrationError, ShapeError
from plugrad.extend import (
    KERNELS,
    KernelTable,
    Shaped,
    Spec,
    gradient,
    host_implementations,
    kernel,
)
from plugrad.kernels import ragged, sparse, string
from plugrad.ops.binary import multiply
from plugrad.ops.reduction import sum as total
from plugrad.testing import check_gradient

# --- on the host ----------------------------------------------------------------------------------


@pytest.fixture
def host_inputs(backend):
    """The inputs that a host implementation called "Halves" receives; the kernel has no contract."""
    arrays = []

    def halves(x, y=None, *, at):
        arrays.extend([x, y])
        return x[:at], x.reshape(-1)[at:][::-1]

    plugrad.register_kernel(KernelConfig("Halves", backend, halves, on_host=True))
    yield arrays
    plugrad.unregister_kernel("Halves", backend)


def test_body_gets_numpy_arrays_and_its_results_are_stored(host_inputs, backend):
    x = plugrad.asarray([1.0, 2.0, 3.0])
    parts = plugrad.run_kernel("Halves", {"x": x, "y": None}, {"at": 1})
    assert [type(array) for array in host_inputs] == [np.ndarray, type(None)]
    assert [part.tolist() for part in parts] == [[1], [3, 2]]
    assert {part.device for part in parts} == {f"{backend}:0"}
    assert (parts[1] * 2).tolist() == [6, 4]


def test_host_body_receives_strings_unchanged(host_inputs, backend):
    parts = plugrad.run_kernel("Halves", {"x": plugrad.asarray(["a", "b"]), "y": None}, {"at": 1})
    assert [part.tolist() for part in parts] == [["a"], ["b"]]


def test_host_bodies_are_not_listed_among_the_functions_of_arrays(host_inputs, backend):
    assert "Halves" not in plugrad.which().backend.functions
    assert plugrad.get_kernel("Halves", backend).on_host


def test_function_of_arrays_may_take_the_place_of_a_body(backend):
    x = {"x": plugrad.asarray([1.0, 2.0])}
    plugrad.register_kernel(KernelConfig("Doubled", backend, lambda x: x + x, on_host=True))
    with plugrad.override_kernel("Doubled", backend, lambda x: x):
        assert plugrad.run_kernel("Doubled", x).tolist() == [1, 2]
        # what a context overrides is not among the functions that all contexts share
        assert "Doubled" not in plugrad.which().backend.functions
    assert plugrad.run_kernel("Doubled", x).tolist() == [2, 4]
    plugrad.unregister_kernel("Doubled", backend)
    with pytest.raises(KernelNotFound, match="no kernel is called 'Doubled'"):
        plugrad.run_kernel("Doubled", x)


def test_contract_is_enforced_before_a_body_runs(backend):
    with pytest.raises(ShapeError, match="SparseReshape"):
        sparse.sparse_reshape(*[plugrad.asarray([1, 2])] * 3)


@pytest.mark.parametrize("family", [ragged, sparse, string])
def test_every_kernel_of_a_host_family_has_a_body(family):
    name = family.__name__.rpartition(".")[2]
    declared = {k for k in KERNELS.values() if k.rule.__module__ == family.__name__}
    assert host_implementations(family).keys() == declared, name
    table = KernelTable("mine")
    table.update(host_implementations(family), on_host=True)
    assert all(config.on_host for config in table)


# --- a list beside others -------------------------------------------------------------------------


@pytest.fixture
def blend_kernel():
    """A kernel that multiplies by the sum of a list of weights and an optional scale, and adds another input."""

    @kernel("Blend", family="example")
    def blend(x: Spec, y: Spec, *weights: Spec, scale: float = 1.0) -> Spec:
        return Shaped(x.shape, x.dtype)

    def computed(x, y, *weights, scale):
        return x * sum(weights) * scale + y

    plugrad.register_kernel(KernelConfig("Blend", "cpu", computed))
    yield blend
    plugrad.unregister_kernel("Blend", "cpu")
    del KERNELS["Blend"]
    if plugrad.get_gradient("Blend"):
        plugrad.unregister_gradient("Blend")


@pytest.fixture
def x():
    return plugrad.asarray([1.0, 2.0])


def test_list_of_inputs_comes_last(blend_kernel, x):
    assert blend_kernel.inputs == ("x", "y", "weights")
    assert (blend_kernel.takes_list, blend_kernel.is_variadic) == (True, False)
    assert [blend_kernel.input_name(i) for i in range(4)] == ["x", "y", "weights[0]", "weights[1]"]
    assert blend_kernel(x, x, x, x, scale=2.0).tolist() == [5, 18]
    assert blend_kernel(x, x, x).tolist() == [2, 6]


def test_list_of_inputs_has_a_name_in_a_mapping(blend_kernel, x):
    given = {"weights": [x, x], "y": x, "x": x}
    assert plugrad.run_kernel("Blend", given).tolist() == [3, 10]
    with pytest.raises(plugrad.errors.ArgumentError, match="takes a mapping"):
        plugrad.run_kernel("Blend", [x, x, x])
    with pytest.raises(plugrad.errors.ArgumentError, match=r"\['weights'\] are unknown or missing"):
        plugrad.run_kernel("Blend", {"x": x, "y": x})
    with pytest.raises(plugrad.errors.ArgumentError, match="inputs must be tensors, not float"):
        plugrad.run_kernel("Blend", {"x": x, "y": x, "weights": [1.0]})


def test_implementation_must_accept_the_list_of_inputs(blend_kernel):
    with pytest.raises(RegistrationError, match=r"must take its inputs as \*weights"):
        plugrad.register_kernel(
            KernelConfig("Blend", "cpu", lambda x, y, weights, *, scale: x), replace=True
        )


def sum_of_list(weights):
    result = weights[0]
    for weight in weights[1:]:
        result = result + weight
    return result


def test_gradient_rule_may_name_the_list_of_inputs(blend_kernel, x):
    gradient(
        blend_kernel,
        x=lambda dy, weights, scale: multiply(dy * scale, sum_of_list(weights)),
        y=lambda dy: dy,
    )
    for count in (1, 2, 3):
        weights = [x * (i + 1) for i in range(count)]
        check_gradient(lambda x, y, w=weights: blend_kernel(x, y, *w, scale=0.5), x, x + 1)
    # The second input of three is as far from the end as the first of two.
    assert plugrad.grad(lambda v: total(blend_kernel(v, x, x)))(x).tolist() == [1, 2]
    assert plugrad.grad(lambda v: total(blend_kernel(x, v, x, x)))(x).tolist() == [1, 1]


def test_explicit_gradient_cannot_save_the_list_of_inputs(blend_kernel):
    config = plugrad.GradientConfig("Blend", lambda dy, saved, attrs: {}, ("weights",))
    with pytest.raises(RegistrationError, match=r"only the table form .* the list 'weights'"):
        plugrad.register_gradient(config)


# --- bodies of plugrad's own ------------------------------------------------------------------------


@pytest.mark.parametrize("family", KERNEL_FAMILIES)
def test_host_bodies_of_every_family_can_be_listed(family):
    bodies = host_implementations(import_module(f"plugrad.kernels.{family}"))
    is_written = (Path(host.__file__).parent / f"{family}.py").is_file()
    assert bool(bodies) is is_written
    assert {kernel.family for kernel in bodies} <= {family}


@pytest.mark.parametrize("family", ["sparse", host, None])
def test_unknown_family_has_no_host_bodies(family):
    with pytest.raises(ArgumentError, match="host_implementations takes a family of contracts"):
        host_implementations(family)
