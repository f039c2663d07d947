"""Export of a function as a graph model: it is traced at two batch sizes, and the model is checked at a third."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, UnsupportedModel, short_repr
from plugrad.graph_models.folding import fold_batch_norms
from plugrad.graph_models.model import MODEL_FILE_NAME, GraphModel
from plugrad.graph_models.reading import read_functions, read_graph
from plugrad.graph_models.writing import encode_shape_attribute, tensorflow_dtype
from plugrad.importing import import_lazily
from plugrad.ops.creation import asarray
from plugrad.saving.atomic_files import check_path
from plugrad.saving.tfjs_weights import DEFAULT_SHARD_BYTES, write_model
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import check_callable, check_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from plugrad.graph_models.writing import GraphWriter

TRACED_BATCH_SIZES: Final = (3, 5)
"""The sizes of the batch that are traced. A third one, 2, is compared with what the function returns."""


def save_graph_model(
    function: Callable[..., Any],
    *examples: Any,
    folder: str | PathLike[str],
    dynamic: bool = True,
    names: Sequence[str] | None = None,
    quantization: str | None = None,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
) -> None:
    """Write a function of tensors as a graph model, which TensorFlow.js loads with ``tf.loadGraphModel``.

    >>> import tempfile
    >>> folder, w = tempfile.mkdtemp(), plugrad.Variable([[1.0], [2.0]], name="w")
    >>> plugrad.tfjs.save_graph_model(
    ...     lambda x: plugrad.relu(x @ w), plugrad.ones((1, 2)), folder=folder
    ... )
    >>> plugrad.tfjs.load_graph_model(folder)(plugrad.ones((3, 2))).shape
    (3, 1)

    Batch normalization after a convolution becomes part of it, as a model that runs in a browser is not trained there.
    The function is traced, and what the model computes is compared with what it returns. Loops and branches of
    `plugrad.scan`, `plugrad.while_loop` and `plugrad.cond` become functions of the model, which the browser runs with
    ``model.executeAsync``; other models also with ``model.predict``.

    Args:
        function: a function of tensors that returns a tensor, or a list or tuple of tensors. The variables that it
            reads become weights with their names.
        *examples: its arguments: tensors, or what `plugrad.asarray` takes.
        folder: where ``model.json`` and its weights go. It is made if there is none.
        dynamic: whether the first axis of all arguments may have any size, as a batch has.
        names: the names of the inputs; by default x0, x1 and so on.
        quantization: as for `encode_weights`.
        shard_bytes: the most bytes of a file.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        UnsupportedModel: a kernel or a dtype has no counterpart, or the function does other things for other sizes.
        TracingError: the function looks at values.
        OSError: a file cannot be written; see `plugrad.save`.
    """
    check_callable("save_graph_model", function)
    path = check_path(folder, "save_graph_model")
    dynamic = check_flag(dynamic, "save_graph_model", "dynamic")
    tensors = [asarray(example) for example in examples]
    inputs = _check_names(names, len(tensors))
    if dynamic and not all(tensor.ndim and tensor.size for tensor in tensors):
        raise ArgumentValueError(
            "save_graph_model: an example has no axis for the batch, or no elements; pass dynamic=False"
        )
    document, weights = _build_document(function, tensors, inputs, dynamic)
    _compare_with_function(
        function, document, weights, [_repeat_rows(t, 2) if dynamic else t for t in tensors], inputs
    )
    os.makedirs(path, exist_ok=True)
    write_model(
        os.path.join(path, MODEL_FILE_NAME), document, weights, quantization=quantization, shard_bytes=shard_bytes
    )  # fmt: skip


def _check_names(names: Sequence[str] | None, argument_count: int) -> list[str]:
    """Return the names of the arguments, which are numbered by default."""
    if names is None:
        return [f"x{place}" for place in range(argument_count)]
    found: list[Any] = list(names) if isinstance(names, list | tuple) else []
    if (
        len(found) != argument_count
        or len({*map(str, found)}) != argument_count
        or not all(isinstance(n, str) and n for n in found)
    ):
        raise ArgumentError(
            f"save_graph_model: names={short_repr(names)} must be a list of {argument_count} different names"
        )
    return cast("list[str]", found)


def _build_document(
    function: Callable[..., Any], tensors: Sequence[Tensor], inputs: Sequence[str], dynamic: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of model.json, and the weights by name."""
    sizes = TRACED_BATCH_SIZES if dynamic else (0, 0)
    traced = [[_repeat_rows(t, size) if dynamic else t for t in tensors] for size in sizes]
    make_graph = import_lazily("plugrad.tracing.jit").make_graph
    first, second = (make_graph(function, differentiable=True)(*arguments) for arguments in traced)
    writer: GraphWriter = import_lazily("plugrad.graph_models.rules").GraphWriter(sizes)
    known = {
        value: writer.new_name(name) for value, name in zip(first.arguments, inputs, strict=True)
    }
    placeholders = [
        {
            "name": name,
            "op": "Placeholder",
            "attr": {
                "dtype": {
                    "type": tensorflow_dtype(str(first.specs[value].dtype), f"input {name!r}")
                },
                "shape": encode_shape_attribute(
                    first.specs[value].shape, second.specs[value].shape
                ),
            },
        }
        for value, name in known.items()
    ]
    writer.nodes += placeholders
    results = writer.write_graph((first, second), known)
    outputs = [
        writer.write_node("Identity", [r], writer.new_name(f"y{n}")) for n, r in enumerate(results)
    ]
    signature = {
        "inputs": {
            name: _describe_tensor(node, first.specs[value], second.specs[value])
            for (value, node), name in zip(list(known.items())[: len(inputs)], inputs, strict=True)
        },
        "outputs": {
            f"y{n}": _describe_tensor(node, first.specs[value], second.specs[value])
            for n, (node, value) in enumerate(zip(outputs, first.results, strict=True))
        },
    }
    topology = {
        "node": fold_batch_norms(writer.nodes, writer.weights),
        "library": {"function": writer.functions},
        "versions": {"producer": 1},
    }
    document = {
        "format": "graph-model",
        "generatedBy": "plugrad",
        "convertedBy": "plugrad.tfjs.save_graph_model",
        "signature": signature,
        "modelTopology": topology,
    }
    return document, dict(writer.weights)


def _describe_tensor(node_name: str, first_value: Any, second_value: Any) -> dict[str, Any]:
    """Return the entry of a signature for a node's value, whose batch sizes may differ between the traces."""
    shape = encode_shape_attribute(first_value.shape, second_value.shape)["shape"]
    dtype = tensorflow_dtype(str(first_value.dtype), f"value {node_name!r}")
    return {"name": f"{node_name}:0", "dtype": dtype, "tensorShape": shape}


def _repeat_rows(tensor: Tensor, size: int) -> Tensor:
    """Return a tensor of `size` rows that repeats the rows of another one."""
    array = tensor.numpy()
    rows = np.arange(size) % len(array)
    return asarray(array[rows], dtype=tensor.dtype, device=tensor.backend)


def _compare_with_function(
    function: Callable[..., Any], document: dict[str, Any], weights: dict[str, Any], tensors: Sequence[Tensor],
    inputs: Sequence[str],
) -> None:  # fmt: skip
    """Raise unless the outputs of the model are close to the function's."""
    returned: Any = function(*tensors)
    wanted: list[Any] = [*returned] if isinstance(returned, list | tuple) else [returned]
    if not all(isinstance(value, Tensor) for value in wanted):
        raise ArgumentError(
            f"save_graph_model: the function returns {short_repr(returned)}; it must return a tensor, or a list or "
            "tuple of tensors"
        )
    topology = document["modelTopology"]
    model = GraphModel(document, read_graph(topology), read_functions(topology), weights)
    results = model.run(dict(zip(inputs, tensors, strict=True)))
    for place, (expected, result) in enumerate(zip(wanted, results, strict=True)):
        one, two = expected.numpy(), result.numpy()
        same = one.shape == two.shape and (
            np.array_equal(one, two)
            if one.dtype.kind not in "fc"
            else np.allclose(one, two, 1e-3, 1e-4, equal_nan=True)
        )
        if not same:
            raise UnsupportedModel(
                f"Output {place} of the model has shape {two.shape} and differs from what the function returns for a "
                f"batch of another size, of shape {one.shape}: what it does depends on the size. Save with "
                "dynamic=False."
            )
