"""Ops and gradient rules compute without looking at a value, for which a device would have to be waited for.

What has to look, because a shape or a number of Python depends on values, stands here by name.
"""

import ast
from pathlib import Path

import numpy as np
import pytest

import plugrad
from consistency.coverage import KERNEL_FAMILIES, family_cases
from consistency.derivatives import gradient_cases_by_kernel
from families.test_decomposition_edges import FUNCTIONS_WITH_GRADIENT, FUNCTIONS_WITHOUT_GRADIENT
from families.test_every_gradient import DIFFERENTIABLE_KERNELS, distinct_cases
from plugrad import linalg, optimizers
from plugrad.errors import PlugradError
from plugrad.testing.ops import OP_CASES

OPS_THAT_READ = {
    "creation": {"<lambda>(5)", "<lambda>(3.5)"},  # arange up to a tensor
    "indexing": {"boolean_mask", "boolean_mask axis=1"},
}
"""The rows of families whose shapes depend on values."""


class ValueRead(PlugradError):
    """The values of a tensor have been read on the host."""


@pytest.fixture
def cpu_without_reading(monkeypatch):
    """Make cpu the active backend, and raise an error if values are read on the host."""

    def refuse(array):
        raise ValueRead("a value was read")

    gradient_cases_by_kernel()  # which rows differentiate through a kernel is found out once
    with plugrad.use("cpu"):
        monkeypatch.setattr(plugrad.which().backend, "to_numpy", refuse)
        yield


def as_tensors(arrays):
    return [x if x is None else plugrad.asarray(x) for x in arrays]


def test_values_cannot_be_read(cpu_without_reading):
    for read in (plugrad.Tensor.numpy, plugrad.Tensor.item, float, bool, repr):
        with pytest.raises(ValueRead):
            read(plugrad.asarray(1.0))


@pytest.mark.parametrize("family", KERNEL_FAMILIES)
def test_ops_read_nothing(family, cpu_without_reading, rng):
    reading = set()
    for case in family_cases(family):
        try:
            with np.errstate(all="ignore"):
                case.op(
                    *as_tensors(case.draw(rng, case.main_dtype)), **case.attributes(case.main_dtype)
                )
        except ValueRead:
            reading.add(str(case))
    assert reading == OPS_THAT_READ.get(family, set())


@pytest.mark.parametrize("op", [op for op in OP_CASES if op.name != "x[x > 0]"], ids=str)
def test_composed_ops_read_nothing(op, cpu_without_reading, rng):
    op.tensor_function(*[plugrad.asarray(rng.uniform(0.5, 3, shape)) for shape in op.shapes])


@pytest.mark.parametrize("name", DIFFERENTIABLE_KERNELS)
def test_gradient_rules_read_nothing(name, cpu_without_reading, rng):
    """This holds for second derivatives too."""
    cases = [
        c
        for c in gradient_cases_by_kernel()[name]
        if str(c) not in set().union(*OPS_THAT_READ.values())
    ]
    for case in distinct_cases(cases):
        with np.errstate(all="ignore"):
            case.derivative_tensors(case.draw_for_gradient(rng, "float64"))


@pytest.mark.parametrize(
    ("function", "x"), [*FUNCTIONS_WITH_GRADIENT, *FUNCTIONS_WITHOUT_GRADIENT], ids=lambda x: ""
)
def test_edge_cases_of_factorizations_read_nothing(function, x, cpu_without_reading):
    plugrad.grad(lambda x: plugrad.sum(plugrad.abs(function(x))))(plugrad.asarray(x))


@pytest.mark.parametrize("n", range(1, 6))
def test_derivatives_of_determinants_read_nothing(n, cpu_without_reading):
    x = plugrad.asarray(np.stack([np.eye(n), np.ones((n, n)), np.zeros((n, n))]))
    gradient = plugrad.grad(lambda x: plugrad.sum(linalg.det(x)))
    plugrad.grad(lambda x: plugrad.sum(gradient(x) ** 2) + plugrad.sum(x))(x)


@pytest.mark.parametrize("dtype", ["float32", "float16"])  # one kernel call, and formulas
@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizers.Momentum(0.1, nesterov=True),
        lambda: optimizers.Adagrad(0.1),
        lambda: optimizers.Adadelta(1.0),
        lambda: optimizers.RMSProp(0.01, centered=True),
        lambda: optimizers.AdamW(0.1),
        lambda: optimizers.Adamax(0.1),
    ],
)
def test_optimizers_read_nothing(make, dtype, cpu_without_reading):
    w, optimizer = plugrad.Variable(plugrad.ones(3, dtype=dtype)), make()
    for _ in range(2):
        _, gradients = plugrad.variable_grads(lambda: plugrad.sum(w * w), [w])
        gradients = optimizers.clip_by_global_norm(gradients, 1.0)
        optimizer.apply_gradients([(w, gradients[0])])


READING_CALLS = {
    "arange of a tensor": lambda x: plugrad.arange(x[0]),
    "bincount without size": lambda x: plugrad.bincount(x),
    "repeat by a tensor": lambda x: plugrad.repeat(x, x),
    "a mask as a key": lambda x: x[x > 1],
    "to_pixels": lambda x: plugrad.image.to_pixels(plugrad.zeros((2, 2, 3))),
    "get_state": lambda x: used_optimizer().get_state([VARIABLE]),
    "a copy to another backend": lambda x: plugrad.to_device(x, "wasm"),
}
VARIABLE = plugrad.Variable([1.0])


def used_optimizer():
    """Return an optimizer that has taken a step."""
    optimizer = optimizers.Momentum(0.1)
    optimizer.apply_gradients([(VARIABLE, plugrad.ones_like(VARIABLE))])
    return optimizer


@pytest.mark.parametrize("what", READING_CALLS)
def test_ops_that_must_read_values_do(what, cpu_without_reading):
    """This keeps the list of reading calls complete."""
    with pytest.raises(ValueRead):
        READING_CALLS[what](plugrad.asarray([1, 2, 3]))


READING_FUNCTIONS = {
    "ops/arrow.py": {"_as_arrow_buffers", "export_arrow"},  # for other libraries
    "ops/arguments.py": {"_as_string_array", "_convert_values"},  # of arrays of NumPy
    "ops/creation.py": {"_check_arange_bound", "_fill_attrs"},  # arange; a number
    "ops/indexing.py": {"_as_fill_scalar"},  # a number
    "ops/keys.py": {"_resolve_positions"},  # a mask as a key
    "ops/methods.py": {"export_buffer", "reduce_for_pickle"},
    "ops/numpy_shapes.py": {"pad"},  # of arrays of NumPy
    "ops/pixels.py": {"to_pixels"},
    "ops/rearrangement.py": {"repeat", "_repetition_counts"},
    "ops/random.py": {"uniform"},  # of a bound, a number of NumPy
    "ops/reduction.py": {"_max_or_minus_one"},  # bincount without size
    "ops/streams.py": {"spawn", "start_children"},  # of arrays of NumPy
    "optimizers/loss_scale.py": {"get_state"},
    "optimizers/optimizer.py": {"get_state"},
    "optimizers/quasi_newton.py": {
        "set_direction",
        "evaluate_point",
        "max_norm",
        "_take_steps",
    },  # a line search looks at values
    "transforms/batches.py": {"to_numpy"},  # of a batched array, which raises
    "plugrad_nn/batching.py": {"_as_array"},  # of numbers of Python
    "plugrad_nn/counting.py": {"as_float"},  # once for each epoch
    "plugrad_nn/data.py": {"split"},  # labels to stratify by
    "plugrad_nn/initializers.py": {"__call__"},  # of orthogonal matrices
    "plugrad_nn/labels.py": {
        "largest_label",  # on the host, and once for a data set
        "check_labels",  # with debug
    },
    "plugrad_nn/metrics/streams.py": {"add_up", "plot"},  # once for an evaluation, and a picture
    "plugrad_nn/training.py": {"_train_epoch"},  # for the progress bar
}
"""Where code that computes calls `numpy`, `item` or `tolist`: files and functions."""


def test_no_other_code_that_computes_reads():
    core, nn = Path(plugrad.__file__).parent, Path(__import__("plugrad_nn").__file__).parent
    folders = ("ops", "gradients", "composites", "transforms", "optimizers")
    files = {f"{f}/{p.name}": p for f in folders for p in (core / f).glob("*.py")}
    layers = [*nn.glob("*.py"), *(nn / "metrics").glob("*.py")]
    files |= {f"plugrad_nn/{p.relative_to(nn).as_posix()}": p for p in layers}
    found = {}
    for name, path in files.items():
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef) and calls_reader(function):
                found.setdefault(name, set()).add(function.name)
    assert found == READING_FUNCTIONS


def calls_reader(function):
    """Return whether a function calls another that reads a tensor on the host."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    names = {f.attr for f in called if isinstance(f, ast.Attribute)}
    return bool(
        names & {"numpy", "numpy_async", "item", "tolist", "__array__"}
        or {f.id for f in called if isinstance(f, ast.Name)} & {"host_values", "read_array"}
    )
