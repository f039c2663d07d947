"""Docstrings of contracts describe each input, attribute and output of the kernel, and nothing else."""

import inspect
import pydoc
import re
import sys
from collections.abc import Iterator

import pytest

import plugrad
from consistency.contract_pages import example_call, first_conformance_case
from consistency.coverage import KERNEL_FAMILIES, core_kernels, family_kernels
from plugrad.contract.description import ContractDescription, read_docstring
from plugrad.contract.kernel import Kernel
from plugrad.extend import FLOATING, KERNELS, Shaped, Spec


def iter_docstring_problems(kernel: Kernel) -> Iterator[str]:
    """Yield the problems of the docstring of a contract."""
    told, own = kernel.description, read_docstring(kernel.rule.__doc__)
    if not re.fullmatch(r"Return\b.*\.", told.summary):
        yield f"the summary {told.summary!r} is not a sentence that begins with Return"
    for item in (*told.inputs, *told.attributes, *told.outputs):
        if not item.meaning.endswith("."):
            yield f"{item.name} is not described by a sentence: {item.meaning!r}"
    if not told.outputs:
        yield "no output is described"
    for name in own.arguments.keys() - {*kernel.inputs, *kernel.attributes}:
        yield f"{name} is described, but not taken"


@pytest.mark.parametrize("name", core_kernels())
def test_every_input_attribute_and_output_is_described(name):
    assert list(iter_docstring_problems(KERNELS[name])) == []


@pytest.mark.parametrize("name", core_kernels())
def test_every_output_of_a_contract_is_described(name):
    row = first_conformance_case(KERNELS[name])
    assert row is not None, "the conformance kit has no row for it"
    names = [item.name for item in KERNELS[name].description.outputs]
    count = len(example_call(row)[2])
    if any(n.startswith("*") for n in names):
        assert len(names) - 1 <= count
    else:
        assert len(names) == count
    assert ("" in names) == (names == [""])


@pytest.mark.parametrize("family", KERNEL_FAMILIES)
def test_shared_parameter_descriptions_of_a_family_are_used_by_its_kernels(family):
    kernels = [KERNELS[name] for name in family_kernels(family)]
    module = read_docstring(sys.modules[f"plugrad.kernels.{family}"].__doc__)
    owns = [read_docstring(kernel.rule.__doc__) for kernel in kernels]
    for name in module.arguments:
        assert any(
            name in (*kernel.inputs, *kernel.attributes) and name not in own.arguments
            for kernel, own in zip(kernels, owns, strict=True)
        ), f"{name} is described, but no kernel needs that"
    assert not module.returns or not all(own.returns for own in owns)


def badly_documented_rule(x: Spec, *others: Spec, axis: int) -> Spec:  # noqa: D417 - that is what is bad about it
    """Give back x.

    Args:
        y: a number.
        axis: no sentence
    """
    return x


def test_missing_descriptions_are_found():
    found = list(iter_docstring_problems(Kernel("Bad", badly_documented_rule, "example")))
    assert len(found) == 6
    for word in ("Return", "x is", "*others is", "axis is", "no output", "y is described"):
        assert any(word in gap for gap in found), word


def well_documented_rule(
    x: Spec, bias: Spec | None = None, *, axis: int, alpha: float = 0.5
) -> tuple[Spec, ...]:
    """Return x twice.

    It says more.

    Args:
        x: any numbers, also
            on two lines.
        bias: another one.
        axis: an axis.
        alpha: a factor.

    Returns:
        first: the first.
        second: the second.
    """
    return Shaped(x.shape, x.dtype), Shaped(x.shape, x.dtype)


def test_description_has_all_parts():
    kernel = Kernel("Good", well_documented_rule, "example", accepts=FLOATING)
    told = kernel.description
    assert told == ContractDescription(
        "Good",
        f"{__name__}.well_documented_rule",
        "(x, bias=None, *, axis, alpha=0.5)",
        "Return x twice.",
        "It says more.",
        (("x", "floats", "any numbers, also on two lines."), ("bias", "optional", "another one.")),
        (("axis", "int", "an axis."), ("alpha", "float", "a factor.")),
        (("first", "", "the first."), ("second", "", "the second.")),
        inspect.getdoc(sys.modules[__name__]),
    )


def test_help_shows_the_contract():
    text = pydoc.plain(pydoc.render_doc(plugrad.kernels.pooling.max_pool))
    for part in (
        "plugrad.kernels.pooling.max_pool(x, *, window)",
        "Return the largest element of each window, or NaN if there is one.",
        "x (integers, floats): images (batch, height, width, channels).",
        "window (Window): how the window slides over the images.",
        "padding does not count.",
        "'MaxPool'",
    ):
        assert part in text


def test_signature_of_a_kernel_is_that_of_its_rule():
    signature = inspect.signature(plugrad.kernels.movement.concat)
    assert list(signature.parameters) == ["inputs", "axis"]
    assert str(signature.parameters["inputs"]) == "*inputs: plugrad.types.specs.Spec"


def test_class_of_kernels_keeps_its_own_docstring():
    assert (inspect.getdoc(Kernel) or "").startswith("A named computation")


def test_kernel_without_docstrings_has_a_contract():
    def rule(x, *, axis=0):
        return x

    rule.__module__ = "gone"
    told = Kernel("Bare", rule, "example").description
    assert str(told).startswith("gone.rule(x, *, axis=0)\n")
    assert told.inputs == (("x", "any dtype", ""),)
