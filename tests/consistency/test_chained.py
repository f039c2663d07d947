"""What chains in TensorFlow.js chains here, and type checkers and consoles see it."""

import inspect
import pydoc

import plugrad
from consistency.chained import chainable_ops, expected_declaration, method_declarations
from consistency.tfjs import FOLDER, places

THEIRS = [
    line
    for line in (FOLDER / "tfjs_chained.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
LEFT_OUT = {
    "as_1d": "x.reshape(-1)",
    "as_2d": "x.reshape(rows, columns)",
    "as_3d": "x.reshape takes any number of sizes",
    "as_4d": "x.reshape takes any number of sizes",
    "as_5d": "x.reshape takes any number of sizes",
    "as_scalar": "x.reshape(()), which raises ShapeError unless x has one element",
    "as_type": "x.astype",
    "flatten": "x.reshape(-1)",
    "reshape_as": "x.reshape(y.shape)",
    "to_bool": 'x.astype("bool")',
    "to_float": 'x.astype("float32")',
    "to_int": 'x.astype("int32")',
}
"""What says the same here, where another name would be a second one."""
OF_NUMPY = {
    "all",
    "any",
    "argmax",
    "argmin",
    "astype",
    "max",
    "mean",
    "min",
    "prod",
    "reshape",
    "sum",
}
"""The methods that take what NumPy's functions pass to them, and that are therefore not the ops themselves."""


def here(theirs):
    return places()[theirs].target.__name__


def test_every_op_chains_that_chains_in_tensorflow_js():
    assert len(THEIRS) == 125 + 12
    assert {name for name in THEIRS if name not in places()} == LEFT_OUT.keys()
    named = {here(name) for name in THEIRS if name not in LEFT_OUT}
    assert named == chainable_ops().keys() | OF_NUMPY
    assert named <= set(dir(plugrad.ones(())))
    assert not LEFT_OUT.keys() & set(dir(plugrad.ones(())))


def test_help_is_that_of_the_op():
    for name, op in chainable_ops().items():
        method = getattr(plugrad.ones(()), name)
        assert inspect.getdoc(method) == inspect.getdoc(op)
        rest = list(inspect.signature(op).parameters.values())[1:]
        assert list(inspect.signature(method).parameters.values()) == rest
        assert inspect.getdoc(op).splitlines()[0] in pydoc.plain(pydoc.render_doc(method))


def test_type_checkers_see_the_ops():
    declared = method_declarations()
    for name, op in chainable_ops().items():
        assert expected_declaration(op) == declared[name]
