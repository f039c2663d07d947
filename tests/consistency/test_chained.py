"""Methods that chain in TensorFlow.js chain in plugrad, and type checkers and consoles see them."""

import inspect
import pydoc

import plugrad
from consistency.chained import chainable_ops, expected_declaration, method_declarations
from consistency.tfjs import DATA_FOLDER, tfjs_ops

TFJS_CHAINED_METHODS = [
    line
    for line in (DATA_FOLDER / "tfjs_chained.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
OMITTED_METHODS = {
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
METHODS_WITH_NUMPY_PARAMETERS = {
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


def plugrad_name(theirs):
    return tfjs_ops()[theirs].target.__name__


def test_every_op_chains_that_chains_in_tensorflow_js():
    assert len(TFJS_CHAINED_METHODS) == 125 + 12
    assert {
        name for name in TFJS_CHAINED_METHODS if name not in tfjs_ops()
    } == OMITTED_METHODS.keys()
    named = {plugrad_name(name) for name in TFJS_CHAINED_METHODS if name not in OMITTED_METHODS}
    assert named == chainable_ops().keys() | METHODS_WITH_NUMPY_PARAMETERS
    assert named <= set(dir(plugrad.ones(())))
    assert not OMITTED_METHODS.keys() & set(dir(plugrad.ones(())))


def test_help_of_a_method_matches_its_op():
    for name, op in chainable_ops().items():
        method = getattr(plugrad.ones(()), name)
        assert inspect.getdoc(method) == inspect.getdoc(op)
        rest = list(inspect.signature(op).parameters.values())[1:]
        assert list(inspect.signature(method).parameters.values()) == rest
        assert inspect.getdoc(op).splitlines()[0] in pydoc.plain(pydoc.render_doc(method))


def test_type_checkers_see_ops_as_methods():
    declared = method_declarations()
    for name, op in chainable_ops().items():
        assert expected_declaration(op) == declared[name]
