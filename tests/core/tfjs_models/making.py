"""Graphs of TensorFlow.js, written by hand."""

import base64
import json
import os

import numpy as np

from plugrad import tfjs

TF_DTYPE_OF_KIND = {
    "f": "DT_FLOAT",
    "i": "DT_INT32",
    "b": "DT_BOOL",
    "c": "DT_COMPLEX64",
    "O": "DT_STRING",
    "U": "DT_STRING",
}


class FunctionName(str):
    """The name of a function, as an attribute of a node."""


class DTypeName(str):
    """The name of a dtype, as an attribute of a node."""


def base64_text(text):
    return base64.b64encode(text.encode()).decode()


def encode_attribute(value):
    match value:
        case FunctionName():
            return {"func": {"name": str(value)}}
        case DTypeName():
            return {"type": str(value)}
        case bool():
            return {"b": value}
        case int():
            return {"i": str(value)}
        case float():
            return {"f": value}
        case str():
            return {"s": base64_text(value)}
        case tuple():
            return {"shape": {"dim": [{"size": str(size)} for size in value]}}
        case [str(), *_]:
            return {"list": {"s": [base64_text(part) for part in value]}}
        case _:
            return {"list": {"i": [str(part) for part in value]}}


class GraphModelWriter:
    """Collects nodes, weights and functions of a graph model, and writes them into a folder."""

    def __init__(self):
        self.nodes, self.weights, self.functions = [], {}, []

    def node(self, name, op, *inputs, **attrs):
        attr = {key: encode_attribute(value) for key, value in attrs.items()}
        self.nodes.append({"name": name, "op": op, "input": list(inputs), "attr": attr})
        return name

    def const(self, name, value):
        array = np.asarray(value)
        self.weights[name] = array
        return self.node(name, "Const", dtype=DTypeName(TF_DTYPE_OF_KIND[array.dtype.kind]))

    def placeholder(self, name, value, shape=None):
        array = np.asarray(value)
        sizes = array.shape if shape is None else shape
        return self.node(
            name,
            "Placeholder",
            dtype=DTypeName(TF_DTYPE_OF_KIND[array.dtype.kind]),
            shape=tuple(sizes),
        )

    def function(self, name, inputs, outputs, making):
        signature = {
            "name": name,
            "inputArg": [{"name": part, "type": "DT_FLOAT"} for part in inputs],
            "outputArg": [{"name": f"out{n}", "type": "DT_FLOAT"} for n in range(len(outputs))],
        }
        results = {f"out{n}": part for n, part in enumerate(outputs)}
        self.functions.append({"signature": signature, "nodeDef": making.nodes, "ret": results})
        self.weights |= making.weights

    def document(self, outputs):
        signature = {"outputs": {name: {"name": name} for name in outputs}}
        topology = {"node": self.nodes, "library": {"function": self.functions}, "versions": {}}
        return {"format": "graph-model", "signature": signature, "modelTopology": topology}

    def write(self, folder, *outputs, **options):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "model.json")
        tfjs.write_model(path, self.document(outputs), self.weights, **options)
        return folder


def array_to_json(array):
    """Return an array as JSON values; infinities and NaN become strings."""
    array = np.asarray(array)
    dtype = {
        "f": "float32",
        "i": "int32",
        "b": "bool",
        "O": "string",
        "U": "string",
        "c": "complex64",
    }[array.dtype.kind]
    flat = array.ravel()
    if dtype == "complex64":
        flat = flat.view(np.float32)
    values = [v if not isinstance(v, float) or np.isfinite(v) else str(v) for v in flat.tolist()]
    return {"dtype": dtype, "shape": list(array.shape), "data": values}


def array_from_json(part):
    """Return the array that `array_to_json` encoded."""
    dtype = {"string": object, "complex64": np.float32}.get(part["dtype"], part["dtype"])
    values = [float(v) if isinstance(v, str) and dtype is not object else v for v in part["data"]]
    array = np.array(values, dtype)
    if part["dtype"] == "complex64":
        array = array.view(np.complex64)
    return array.reshape(part["shape"])


def load_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
