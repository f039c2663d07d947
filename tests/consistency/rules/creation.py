"""Rules about making tensors: from values, filled, at random, and variables."""

import numpy as np

import plugrad
from consistency.rules.reasons import MORE_DTYPES_EXIST, ONE_CONSTRUCTOR
from consistency.rules.row import accepts, ones, ones_like, rejects
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError

OPS_WITH_SHAPE = "fill ones random_uniform random_uniform_int zeros"
TENSOR_ND_OPS = "tensor2d tensor3d tensor4d tensor5d tensor6d"
TENSOR_LIKE_REMEDY = "must be a tensor, a number, an array or a nested list of numbers"
FLOATING_REMEDY = "must be floating; draw floating numbers and convert them with astype"
COMPLEX_MATRIX = np.ones((2, 3), "complex64")

CREATION = (
    rejects(
        *("shape", OPS_WITH_SHAPE, {"shape": (2, -1)}, ShapeError),
        *("{op}: shape", "=(2, -1) has a negative size", "sizes must be 0 or more"),
    ),
    rejects(
        *("shape", OPS_WITH_SHAPE, {"shape": (2, 1.5)}, ShapeError),
        *("{op}: shape", "=(2, 1.5) is not a shape", "sizes must be integers"),
    ),
    accepts(
        *("shape, values and dtype", "buffer", lambda: plugrad.asarray(COMPLEX_MATRIX)),
        *("a NumPy array is the buffer, of any dtype", COMPLEX_MATRIX),
    ),
    accepts(
        *("batch shape", "eye", lambda: plugrad.broadcast_to(plugrad.eye(2), (1, 1, 1, 1, 2, 2))),
        *("broadcast_to gives any number of batch axes", np.eye(2)[None, None, None, None]),
    ),
    accepts(
        *("number", "linspace", {"num": 0}),
        *("a range may be empty, as in NumPy", np.linspace(0, 1, 0)),
    ),
    rejects(
        *("number", "linspace", {"num": -1}, ArgumentValueError),
        *("linspace: num", "=-1", "must be 0 or more"),
    ),
    rejects(
        *("step", "range", {"step": 0}, ArgumentValueError),
        *("arange: step", "=0", "it must not be 0"),
    ),
    rejects(
        *("dtype", "rand random_gamma random_normal random_standard_normal truncated_normal"),
        *({"dtype": "bool"}, DTypeError, "{op}: dtype", "=bool", FLOATING_REMEDY),
    ),
    rejects(
        *("dtype", "rand random_gamma", {"dtype": "string"}, DTypeError),
        *("{op}: dtype", "=string", FLOATING_REMEDY),
    ),
    accepts("dtype", "rand random_gamma", {"dtype": "float64"}, MORE_DTYPES_EXIST),
    accepts(
        *("outcomes", "multinomial", {"logits": ones(2, 1)}),
        *("one outcome is certain", np.zeros((2, 3), "int32")),
    ),
    rejects(
        *("outcomes", "multinomial", {"logits": ones(2, 0)}, ShapeError),
        *("Multinomial: logits", "(2, 0)", "must be rows of at least one class"),
    ),
    *(
        rejects(
            *("rank", "multinomial", {"logits": ones(*shape)}, ShapeError),
            *("multinomial: logits", f"their shape is {shape}", "must have one or two axes"),
        )
        for shape in ((), (2, 2, 3))
    ),
    accepts("one value", "scalar", {"obj": [1.0, 2.0]}, ONE_CONSTRUCTOR, [1.0, 2.0]),
    rejects(
        *("shape", "tensor", {"obj": [[1.0, 2.0], [3.0]]}, ShapeError),
        *("asarray: obj", "is a ragged list", "the lists on one level must have equal lengths"),
    ),
    accepts(
        *("no complex numbers", "tensor", {"obj": [1 + 2j], "dtype": "complex64"}),
        *("Python has complex numbers", [1 + 2j]),
    ),
    *(
        rejects(
            *("kind of values", "tensor", {"obj": value}, ArgumentError),
            *("asarray: obj", f"not {type(value).__name__}", TENSOR_LIKE_REMEDY),
        )
        for value in (object(), {"a": 1}, {1})
    ),
    rejects(
        *("something", f"tensor1d {TENSOR_ND_OPS}", {"obj": None}, ArgumentError),
        *("asarray: obj", "not NoneType", TENSOR_LIKE_REMEDY),
    ),
    accepts("nesting", "tensor1d", {"obj": [[1.0]]}, ONE_CONSTRUCTOR, [[1.0]]),
    accepts("nesting", TENSOR_ND_OPS, {"obj": [1.0, 2.0]}, ONE_CONSTRUCTOR, [1.0, 2.0]),
    *(
        accepts(
            *("length of the shape", op, lambda: plugrad.asarray([1.0, 2.0]).reshape(2)),
            *(ONE_CONSTRUCTOR, [1.0, 2.0]),
        )
        for op in TENSOR_ND_OPS.split()
    ),
    accepts(
        *("name", "variable", lambda: [plugrad.Variable(n, name="w") for n in (1.0, 2.0)][1]),
        *("names are for people, and need not differ", 2.0),
    ),
    rejects(
        *("name of a dtype", "cast", {"dtype": "float33"}, DTypeError),
        *("dtype", "'float33'", "did you mean 'float32' … choose one of bool, int8"),
    ),
    rejects(
        *("strings and numbers", "cast", {"x": ones_like("string")}, DTypeError),
        *("astype: ", "string does not convert to int32", "as in float(text)"),
    ),
    rejects(
        *("strings and numbers", "cast", {"dtype": "string"}, DTypeError),
        *("astype: ", "float32 does not convert to string", "make the values in Python"),
    ),
)
