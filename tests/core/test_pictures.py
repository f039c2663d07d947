"""Graphs of functions: which kernels they show, what leads to what, and where it is drawn."""

import xml.etree.ElementTree as ElementTree
from collections import Counter

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError
from plugrad.pictures.layout import arrange_graph
from plugrad.pictures.trace import trace_graph

IMAGES = np.linspace(-1, 1, 2 * 8 * 8, dtype="float32").reshape(2, 8, 8, 1)
LABELS = np.array([1, 2])
WEIGHTS = {
    "filter": np.linspace(-1, 1, 36, dtype="float32").reshape(3, 3, 1, 4),
    "dense": np.linspace(-1, 1, 192, dtype="float32").reshape(64, 3),
}


def convnet_loss(weights, images, labels):
    """Return the loss of a small convolutional network."""
    h = plugrad.relu(plugrad.conv2d(images, weights["filter"], padding="same"))
    h = plugrad.reshape(plugrad.max_pool(h, 2, 2), (2, -1))
    logits = h @ weights["dense"]
    return plugrad.losses.softmax_cross_entropy(plugrad.one_hot(labels, 3), logits)


def edge_end_titles(nodes, edges, chosen):
    """Return the titles of the nodes at the other ends of the edges to nodes of a kind."""
    return sorted((nodes[a].title, nodes[b].title) for a, b in edges if nodes[b].kind == chosen)


def svg_elements(svg, kind):
    return ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{kind}")


def test_a_network_and_its_gradient(backend):
    graph = plugrad.plot_graph(convnet_loss, WEIGHTS, IMAGES, LABELS)
    assert graph.kernels[:4] == ["Conv2D", "Relu", "MaxPool", "Reshape"]
    assert {"OneHot", "BatchMatMul"} <= set(graph.kernels)
    counts = Counter(graph.kernels_of_gradient)
    assert (counts["Conv2DBackpropFilter"], counts["Conv2DBackpropInput"]) == (1, 1)
    assert counts["MaxPoolGrad"] == 1
    assert repr(graph).startswith(f"<GraphPicture of {len(graph.kernels)} kernels, and ")
    boxes = Counter(rect.get("class") for rect in svg_elements(graph._repr_svg_(), "rect"))
    assert boxes["kernel"] - 1 == len(graph.kernels)  # one in the legend
    assert boxes["backward"] - 1 == len(graph.kernels_of_gradient)
    texts = {text.text for text in svg_elements(graph.svg, "text")}
    assert {"weights['filter']", "images", "float32 2×8×8×4", "gradient of images"} <= texts
    tooltips = "".join(title.text for title in svg_elements(graph.svg, "title"))
    assert f"device: {backend}:0" in tooltips


def test_edges_connect_kernels_to_inputs_and_results():
    def f(x, y):
        return plugrad.sin(x) * y

    nodes, edges = trace_graph(f, (2.0, plugrad.asarray([1.0, 2.0], device="cpu")))
    kernel = [node.title for node in nodes if node.kind == "kernel"]
    assert kernel[:2] == ["Sin", "Multiply"]
    into = edge_end_titles(nodes, edges, "kernel")
    assert ("x", "Sin") in into
    assert ("x", "Cos") in into
    assert ("Sin", "Multiply") in into
    assert ("Multiply", "result") in edge_end_titles(nodes, edges, "result")
    gradients = edge_end_titles(nodes, edges, "gradient")
    assert [target for _, target in gradients] == ["gradient of x", "gradient of y"]
    assert [nodes[n.owner].title for n in nodes if n.title == "Cos"] == ["Sin"]


def test_steps_that_compute_gradients_themselves():
    w = plugrad.Variable(np.ones(3, "float32"), name="weights")

    def step():
        return plugrad.optimizers.SGD(0.1).minimize(lambda: plugrad.sum(plugrad.square(w)), [w])

    nodes, edges = trace_graph(step, ())
    assert ("weights", "Square") in edge_end_titles(nodes, edges, "kernel")
    kernels = [node for node in nodes if node.kind == "kernel"]
    forward = {node.title for node in kernels if not node.is_backward}
    assert forward >= {"Square", "Sum", "ApplyGradientDescent"}
    assert "Multiply" in {node.title for node in kernels if node.is_backward}
    assert not [node for node in nodes if node.kind == "gradient"]
    second = plugrad.plot_graph(plugrad.grad(plugrad.grad(lambda x: x * x * x)), 2.0)
    assert second.kernels.count("Multiply") == 2
    assert "Add" in second.kernels_of_gradient


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (convnet_loss, (WEIGHTS, IMAGES, LABELS)),
        (plugrad.grad(plugrad.grad(lambda x: x * plugrad.sin(x))), (2.0,)),
        (lambda: plugrad.zeros((2,)), ()),
        (lambda x: x, (1.0,)),
        (lambda n: n + 1, (np.int32(3),)),
        (lambda x: {"a": [plugrad.unstack(x), None]}, (IMAGES,)),
        (lambda x: None, (IMAGES,)),
    ],
)
def test_boxes_do_not_overlap_and_values_flow_in_one_direction(function, args):
    nodes, edges = trace_graph(function, args)
    places = arrange_graph(nodes, edges)
    for i, a in enumerate(places.boxes):
        assert a.width / 2 <= a.x + 1e-6
        assert a.x + a.width / 2 <= places.width + 1e-6
        for b in places.boxes[:i]:
            apart_x = abs(a.x - b.x) >= (a.width + b.width) / 2
            apart_y = abs(a.y - b.y) >= (a.height + b.height) / 2
            assert apart_x or apart_y
    for edge in edges:
        rises, target = places.leads_upwards[edge], nodes[edge.target]
        start, end = places.boxes[edge.source], places.boxes[edge.target]
        if rises is not None:
            assert rises == (end.y < start.y)
            assert start.y != end.y
            assert target.is_backward or not rises
    ElementTree.fromstring(plugrad.plot_graph(function, *args).svg)


def test_bad_input_and_names_that_need_escapes(tmp_path):
    graph = plugrad.plot_graph(lambda x: x["</svg>&"] + 1, {"</svg>&": 1.0})
    assert "x['</svg>&']" in {text.text for text in svg_elements(graph.svg, "text")}
    graph.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text("utf-8") == graph.svg
    with pytest.raises(ArgumentValueError, match=r"'graph.png' must end in \.svg"):
        graph.save("graph.png")
    with pytest.raises(ArgumentError, match="plot_graph takes a function, not int"):
        plugrad.plot_graph(3)
    before = plugrad.asarray(1.0).backend.functions
    with pytest.raises(ZeroDivisionError):
        plugrad.plot_graph(lambda x: 1 / 0, 1.0)
    plugrad.exp(1.0)
    assert "watched" not in before["Exp"].__qualname__


def test_a_traced_graph():
    v = plugrad.Variable(np.ones(3, "float32"), name="weights")

    def f(x):
        v.assign(plugrad.exp(x) * 2 + v)
        return plugrad.scan(lambda c, y: (c + y, c * y), plugrad.sum(x), x)

    graph = plugrad.plot_graph(plugrad.make_graph(f)(np.ones(3, "float32")))
    assert graph.kernels == ["Exp", "Multiply", "Add", "Sum", "scan, 3 times"]
    texts = {text.text for text in svg_elements(graph.svg, "text")}
    assert {"argument 0", "2.0", "weights", "weights becomes", "result 0", "result 1"} <= texts
    tooltips = "".join(title.text for title in svg_elements(graph.svg, "title"))
    assert "test_pictures.py:" in tooltips
    assert "inside: " in tooltips
    assert plugrad.plot_graph(plugrad.make_graph(lambda x: x)(v * 1)).kernels == []


def test_nested_lists_without_end_are_an_error():
    endless = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="contains itself"):
        plugrad.plot_graph(lambda x: plugrad.relu(x[0]), [plugrad.ones(2), endless])
