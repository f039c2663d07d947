"""Branches, loops, lists and arrays of tensors in graphs of TensorFlow.js, of both versions."""

import numpy as np
import pytest

import plugrad
from core.tfjs_models.making import DTypeName, FunctionName, GraphModelWriter
from core.tfjs_models.node import needs_tfjs, run_models_in_node
from plugrad.errors import ArgumentValueError, DamagedFile

FLOAT = DTypeName("DT_FLOAT")


def control_flow_v1_branch():
    """``x * 2 if flag else 5 - x``, with a constant that only one branch contains."""
    m = GraphModelWriter()
    m.placeholder("x", np.ones(2, np.float32))
    m.placeholder("flag", np.array(True))
    m.node("switch", "Switch", "x", "flag")
    m.node("pred", "Switch", "flag", "flag")
    m.node("pivot_f", "Identity", "pred")
    m.const("two", np.float32(2))
    m.nodes.append({"name": "five", "op": "Const", "input": ["^pivot_f"], "attr": {}})
    m.weights["five"] = np.float32(5)
    m.node("double", "Mul", "switch:1", "two")
    m.node("rest", "Sub", "five", "switch")
    m.node("y", "Merge", "rest", "double")
    return m, ["y"]


def control_flow_v1_loop():
    """``while i < n: x, i = x * k + 1, i + 1``, where k and n are loop invariants."""
    m = GraphModelWriter()
    m.placeholder("x", np.ones(2, np.float32))
    for name, value in (
        ("zero", np.int32(0)),
        ("n", np.int32(4)),
        ("step", np.int32(1)),
        ("k", np.float32(0.5)),
        ("one", np.float32(1)),
    ):
        m.const(name, value)
    for name, source, constant in (
        ("i_in", "zero", False),
        ("x_in", "x", False),
        ("n_in", "n", True),
        ("k_in", "k", True),
    ):
        m.node(name, "Enter", source, frame_name="loop", is_constant=constant)
    m.node("i", "Merge", "i_in", "i_next")
    m.node("v", "Merge", "x_in", "x_next")
    m.node("less", "Less", "i", "n_in")
    m.node("cond", "LoopCond", "less")
    m.node("i_switch", "Switch", "i", "cond")
    m.node("x_switch", "Switch", "v", "cond")
    m.node("i_more", "AddV2", "i_switch:1", "step")
    m.node("scaled", "Mul", "x_switch:1", "k_in")
    m.node("x_more", "AddV2", "scaled", "one")
    m.node("i_next", "NextIteration", "i_more")
    m.node("x_next", "NextIteration", "x_more")
    m.node("y", "Exit", "x_switch")
    return m, ["y"]


def tensor_array_v3():
    """Write i * x to a tensor array in a loop; then read, gather, concatenate, and get its size."""
    m = GraphModelWriter()
    m.placeholder("x", np.ones(2, np.float32))
    for name, value in (("zero", 0), ("n", 3), ("step", 1)):
        m.const(name, np.int32(value))
    m.const("all", np.arange(3, dtype=np.int32))
    m.node(
        "array",
        "TensorArrayV3",
        "n",
        dtype=FLOAT,
        element_shape=(2,),
        dynamic_size=False,
        clear_after_read=False,
        identical_element_shapes=True,
        tensor_array_name="a",
    )
    m.node("a_in", "Enter", "array", frame_name="loop", is_constant=True)
    m.node("x_in", "Enter", "x", frame_name="loop", is_constant=True)
    m.node("i_in", "Enter", "zero", frame_name="loop", is_constant=False)
    m.node("f_in", "Enter", "array:1", frame_name="loop", is_constant=False)
    m.node("i", "Merge", "i_in", "i_next")
    m.node("f", "Merge", "f_in", "f_next")
    m.node("less", "Less", "i", "n")
    m.node("cond", "LoopCond", "less")
    m.node("i_switch", "Switch", "i", "cond")
    m.node("f_switch", "Switch", "f", "cond")
    m.node("now", "Identity", "i_switch:1")
    m.node("number", "Cast", "now", DstT=FLOAT, SrcT=DTypeName("DT_INT32"))
    m.node("value", "Mul", "x_in", "number")
    m.node("written", "TensorArrayWriteV3", "a_in", "now", "value", "f_switch:1")
    m.node("i_more", "AddV2", "now", "step")
    m.node("i_next", "NextIteration", "i_more")
    m.node("f_next", "NextIteration", "written")
    m.node("flow", "Exit", "f_switch")
    m.node(
        "gathered", "TensorArrayGatherV3", "array", "all", "flow", dtype=FLOAT, element_shape=(2,)
    )
    m.node("read", "TensorArrayReadV3", "array", "step", "flow", dtype=FLOAT)
    m.node("joined", "TensorArrayConcatV3", "array", "flow", dtype=FLOAT, element_shape_except0=())
    m.node("size", "TensorArraySizeV3", "array", "flow")
    return m, ["gathered", "read", "joined", "size"]


def scattered_tensor_arrays():
    m = GraphModelWriter()
    m.placeholder("x", np.ones((3, 2), np.float32))
    m.const("n", np.int32(3))
    m.const("order", np.array([2, 0, 1], np.int32))
    m.const("lengths", np.array([1, 2], np.int32))
    m.const("first", np.int32(0))
    options = {
        "dtype": FLOAT,
        "dynamic_size": True,
        "clear_after_read": False,
        "identical_element_shapes": False,
    }
    m.node("a", "TensorArrayV3", "n", element_shape=(2,), **options)
    m.node("filled", "TensorArrayScatterV3", "a", "order", "x", "a:1", T=FLOAT)
    m.node("y", "TensorArrayReadV3", "a", "first", "filled", dtype=FLOAT)
    m.const("two", np.int32(2))
    m.node("b", "TensorArrayV3", "two", element_shape=(-1, 2), **options)
    m.node("cut", "TensorArraySplitV3", "b", "x", "lengths", "b:1", T=FLOAT)
    m.node("z", "TensorArrayReadV3", "b", "first", "cut", dtype=FLOAT)
    return m, ["y", "z"]


def control_flow_v2_functions():
    """``loop(if flag: x * 2 else x - 1)``, where the loop adds x until its sum is 10."""
    m = GraphModelWriter()
    m.placeholder("x", np.ones(2, np.float32))
    m.placeholder("flag", np.array(True))
    twice, less = GraphModelWriter(), GraphModelWriter()
    twice.const("twice/two", np.float32(2))
    twice.node("product", "Mul", "x", "twice/two")
    less.const("less/one", np.float32(1))
    less.node("difference", "Sub", "x", "less/one")
    m.function("twice", ["x"], ["product:z:0"], twice)
    m.function("less", ["x"], ["difference:z:0"], less)
    test, body = GraphModelWriter(), GraphModelWriter()
    test.const("test/axes", np.array([0], np.int32))
    test.const("test/ten", np.float32(10))
    test.node("total", "Sum", "s", "test/axes", keep_dims=False)
    test.node("small", "Less", "total:output:0", "test/ten")
    body.node("more", "AddV2", "s", "x")
    body.node("same", "Identity", "x")
    m.function("test", ["s", "x"], ["small:z:0"], test)
    m.function("body", ["s", "x"], ["more:z:0", "same:output:0"], body)
    m.node(
        "chosen",
        "StatelessIf",
        "flag",
        "x",
        then_branch=FunctionName("twice"),
        else_branch=FunctionName("less"),
    )
    m.node(
        "again",
        "If",
        "flag",
        "chosen",
        then_branch=FunctionName("less"),
        else_branch=FunctionName("twice"),
    )
    m.node(
        "loop", "StatelessWhile", "again", "x", cond=FunctionName("test"), body=FunctionName("body")
    )
    m.node("other", "While", "loop", "x", cond=FunctionName("test"), body=FunctionName("body"))
    m.node("y", "Identity", "other")
    return m, ["y"]


def tensor_list_operators():
    """All operators of tensor lists, without a loop."""
    m = GraphModelWriter()
    m.placeholder("x", np.ones((3, 2), np.float32))
    for name, value in {"shape": [2], "rows": [2, 0]}.items():
        m.const(name, np.array(value, np.int32))
    for n in (0, 1, 2, 3, 5):
        m.const(f"n{n}", np.int32(n))
    t = {"element_dtype": FLOAT}
    m.node("slices", "TensorListFromTensor", "x", "shape", **t)
    m.node("first", "TensorListGetItem", "slices", "n0", "shape", **t)
    m.node("gathered", "TensorListGather", "slices", "rows", "shape", **t)
    m.node("stacked", "TensorListStack", "slices", "shape", num_elements=-1, **t)
    m.node("length", "TensorListLength", "slices")
    m.node("scattered", "TensorListScatterV2", "x", "order", "shape", "n3", **t)
    m.const("order", np.array([2, 0, 1], np.int32))
    m.node("turned", "TensorListStack", "scattered", "shape", num_elements=3, **t)
    m.node("old", "TensorListScatter", "x", "order", "shape", **t)
    m.node("joined", "TensorListConcatV2", "slices", "shape", element_shape=(2,), **t)
    outputs = ["first", "gathered", "stacked", "length", "turned", "joined"]
    return m, outputs


def resized_tensor_lists():
    """Tensor lists that are resized or split; TensorFlow.js modifies them in place."""
    m = GraphModelWriter()
    m.placeholder("x", np.ones((3, 2), np.float32))
    m.const("shape", np.array([2], np.int32))
    for n in (1, 2, 3, 5):
        m.const(f"n{n}", np.int32(n))
    t = {"element_dtype": FLOAT}
    m.node("rows", "Unpack", "x", num=3, axis=0)
    m.node("none", "EmptyTensorList", "shape", "n5", **t)
    m.node("one", "TensorListPushBack", "none", "rows", **t)
    m.node("two", "TensorListPushBack", "one", "rows:1", **t)
    m.node("popped", "TensorListPopBack", "two", "shape", **t)
    m.node("last", "Identity", "popped:1")
    m.node("left", "TensorListLength", "popped")
    m.node("whole", "TensorListStack", "two", "shape", num_elements=2, **t)
    m.node("room", "TensorListReserve", "shape", "n2", **t)
    m.node("set", "TensorListSetItem", "room", "n1", "rows:2", **t)
    m.node("zeros", "TensorListStack", "set", "shape", num_elements=2, **t)
    m.node("longer", "TensorListResize", "two", "n3")
    m.node("padded", "TensorListStack", "longer", "shape", num_elements=3, **t)
    m.node("empty", "TensorListStack", "none", "shape", num_elements=0, **t)
    m.const("any", np.array([-1, 2], np.int32))
    m.const("lengths", np.array([1, 2], np.int32))
    m.node("parts", "TensorListSplit", "x", "any", "lengths", **t)
    m.node("part", "TensorListGetItem", "parts", "n1", "any", **t)
    m.node("joined", "TensorListConcatV2", "parts", "any", element_shape=(-1, 2), **t)
    return m, ["last", "left", "whole", "zeros", "padded", "empty", "part", "joined"]


VECTOR = np.array([1.5, -0.5], np.float32)
MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def reference_v2_functions(x, flag):
    x_chosen = x * 2 if flag else x - 1
    s = x_chosen - 1 if flag else x_chosen * 2
    while s.sum() < 10:
        s = s + x
    return s


def reference_v1_loop(x):
    for _ in range(4):
        x = x * np.float32(0.5) + 1
    return x


STACKED_MULTIPLES = np.stack([VECTOR * n for n in range(3)])
CONTROL_FLOW_CASES = {
    "branch": (control_flow_v1_branch, {"x": VECTOR, "flag": np.array(True)}, [VECTOR * 2]),
    "other branch": (control_flow_v1_branch, {"x": VECTOR, "flag": np.array(False)}, [5 - VECTOR]),
    "loop": (control_flow_v1_loop, {"x": VECTOR}, [reference_v1_loop(VECTOR)]),
    "array": (
        tensor_array_v3,
        {"x": VECTOR},
        [STACKED_MULTIPLES, VECTOR, STACKED_MULTIPLES.ravel(), np.int32(3)],
    ),
    "filled array": (scattered_tensor_arrays, {"x": MATRIX}, [MATRIX[1], MATRIX[:1]]),
    "functions": (
        control_flow_v2_functions,
        {"x": VECTOR, "flag": np.array(True)},
        [reference_v2_functions(VECTOR, True)],
    ),
    "other functions": (
        control_flow_v2_functions,
        {"x": VECTOR, "flag": np.array(False)},
        [reference_v2_functions(VECTOR, False)],
    ),
    "lists": (
        tensor_list_operators,
        {"x": MATRIX},
        [MATRIX[0], MATRIX[[2, 0]], MATRIX, np.int32(3), MATRIX[[1, 2, 0]], MATRIX.ravel()],
    ),
}
RESIZED_LIST_RESULTS = [
    MATRIX[1],
    np.int32(1),
    MATRIX[:2],
    [[0, 0], MATRIX[2]],
    [*MATRIX[:2], [0, 0]],
    np.zeros((0, 2)),
    MATRIX[1:],
    MATRIX,
]


@pytest.mark.parametrize("name", CONTROL_FLOW_CASES)
def test_control_flow_matches_python(name, backend, tmp_path):
    make, inputs, wanted = CONTROL_FLOW_CASES[name]
    making, outputs = make()
    model = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), *outputs))
    for result, want in zip(model.run(inputs), wanted, strict=True):
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-6)
        assert result.shape == np.shape(want)


def test_changing_a_tensor_list_returns_another_list(tmp_path):
    making, outputs = resized_tensor_lists()
    results = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), *outputs)).run(
        {"x": MATRIX}
    )
    for result, want in zip(results, RESIZED_LIST_RESULTS, strict=True):
        np.testing.assert_array_equal(result.numpy(), want)


@needs_tfjs
def test_control_flow_matches_tensorflow_js(tmp_path):
    jobs, wanted = [], []
    for place, (make, inputs, values) in enumerate(CONTROL_FLOW_CASES.values()):
        making, outputs = make()
        folder = making.write(str(tmp_path / str(place)), *outputs)
        jobs.append({"folder": folder, "kind": "graph", "inputs": inputs, "outputs": outputs})
        wanted.append(values)
    for name, result, values in zip(
        CONTROL_FLOW_CASES, run_models_in_node(jobs, tmp_path), wanted, strict=True
    ):
        assert not isinstance(result, str), f"{name}: {result}"
        for got, want in zip(result, values, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def nested_v1_loops():
    """``for i in range(3): for j in range(i): x = x + 1``, as control flow of version 1 within a branch."""
    m = GraphModelWriter()
    m.placeholder("x", np.float32(0))
    m.placeholder("flag", np.array(True))
    for name, value in (("zero", 0), ("n", 3), ("step", 1)):
        m.const(name, np.int32(value))
    m.const("one", np.float32(1))
    m.node("gate", "Switch", "x", "flag")
    m.node("start", "Switch", "zero", "flag")
    for name, source in (("i_in", "start:1"), ("x_in", "gate:1")):
        m.node(name, "Enter", source, frame_name="outer", is_constant=False)
    m.node("i", "Merge", "i_in", "i_next")
    m.node("v", "Merge", "x_in", "x_next")
    m.node("less", "Less", "i", "n")
    m.node("cond", "LoopCond", "less")
    m.node("i_s", "Switch", "i", "cond")
    m.node("v_s", "Switch", "v", "cond")
    m.node("begin", "Sub", "i_s:1", "i_s:1")
    for name, source, constant in (
        ("j_in", "begin", False),
        ("w_in", "v_s:1", False),
        ("m_in", "i_s:1", True),
    ):
        m.node(name, "Enter", source, frame_name="inner", is_constant=constant)
    m.node("j", "Merge", "j_in", "j_next")
    m.node("w", "Merge", "w_in", "w_next")
    m.node("less2", "Less", "j", "m_in")
    m.node("cond2", "LoopCond", "less2")
    m.node("j_s", "Switch", "j", "cond2")
    m.node("w_s", "Switch", "w", "cond2")
    m.node("j_more", "AddV2", "j_s:1", "step")
    m.node("w_more", "AddV2", "w_s:1", "one")
    m.node("j_next", "NextIteration", "j_more")
    m.node("w_next", "NextIteration", "w_more")
    m.node("w_out", "Exit", "w_s")
    m.node("i_more", "AddV2", "i_s:1", "step")
    m.node("i_next", "NextIteration", "i_more")
    m.node("x_next", "NextIteration", "w_out")
    m.node("x_out", "Exit", "v_s")
    m.node("y", "Merge", "gate", "x_out")
    return m, ["y"]


@pytest.mark.parametrize(("flag", "wanted"), [(True, 13.0), (False, 10.0)])
def test_a_loop_in_a_loop_in_a_branch_runs_or_not(flag, wanted, tmp_path):
    making, outputs = nested_v1_loops()
    model = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), *outputs))
    assert model(x=10.0, flag=flag).item() == wanted


def test_gradients_pass_through_loops(tmp_path):
    making, outputs = control_flow_v1_loop()
    model = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), *outputs))
    assert (
        plugrad.grad(lambda x: plugrad.sum(model(x)))(plugrad.asarray(VECTOR)).tolist()
        == [0.0625] * 2
    )


def test_loops_that_shapes_decide_can_be_compiled(tmp_path):
    """Loop counters stay on the host, so that tracing need not read values."""
    making, outputs = control_flow_v1_loop()
    model = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), *outputs))
    np.testing.assert_allclose(
        plugrad.jit(model)(plugrad.asarray(VECTOR)).numpy(), reference_v1_loop(VECTOR)
    )


def test_partitioned_call_runs_a_function(tmp_path):
    m, body = GraphModelWriter(), GraphModelWriter()
    m.placeholder("x", VECTOR)
    body.node("square", "Mul", "a", "a")
    m.function("square", ["a"], ["square:z:0"], body)
    m.node("y", "PartitionedCall", "x", f=FunctionName("square"))
    model = plugrad.tfjs.load_graph_model(m.write(str(tmp_path), "y"))
    np.testing.assert_allclose(model(VECTOR).numpy(), VECTOR * VECTOR)


def test_invalid_control_flow_graphs_are_errors(tmp_path):
    def load(place, m, *outputs):
        return plugrad.tfjs.load_graph_model(m.write(str(tmp_path / str(place)), *outputs))

    m, body = GraphModelWriter(), GraphModelWriter()
    m.placeholder("x", VECTOR)
    body.node("again", "PartitionedCall", "a", f=FunctionName("forever"))
    m.function("forever", ["a"], ["again:output:0"], body)
    m.node("y", "PartitionedCall", "x", f=FunctionName("forever"))
    with pytest.raises(DamagedFile, match="function 'forever' runs itself"):
        load(0, m, "y")
    m = GraphModelWriter()
    m.placeholder("x", VECTOR)
    m.node("y", "PartitionedCall", "x", f=FunctionName("nowhere"))
    with pytest.raises(DamagedFile, match=r"runs the function 'nowhere', which does not exist"):
        load(1, m, "y")
    m = GraphModelWriter()
    m.placeholder("x", VECTOR)
    m.node("a", "AddV2", "x", "b")
    m.node("b", "AddV2", "a", "x")
    with pytest.raises(DamagedFile, match="needs its own result"):
        load(2, m, "b")
    m = GraphModelWriter()
    m.placeholder("x", VECTOR)
    m.node("merge", "Merge", "next", "next")
    m.node("next", "NextIteration", "merge")
    with pytest.raises(DamagedFile, match="never gives node 'merge' a value"):
        load(3, m, "merge")(VECTOR)
    m = GraphModelWriter()
    m.placeholder("x", MATRIX)
    m.const("shape", np.array([2], np.int32))
    m.const("far", np.int32(7))
    m.node("list", "TensorListFromTensor", "x", "shape", element_dtype=FLOAT)
    m.node("y", "TensorListGetItem", "list", "far", "shape", element_dtype=FLOAT)
    with pytest.raises(ArgumentValueError, match="element 7 of a list of 3 tensors"):
        load(4, m, "y")(MATRIX)
