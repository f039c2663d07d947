"""Read the records: see README.md beside this file for their format."""

import base64
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

RECORDS_FOLDER = Path(__file__).parent / "records"
NUMPY_FORMATS = {
    "float32": "<f4",
    "int32": "<i4",
    "bool": "?",
    "complex64": "<c8",
    "uint8": "u1",
    "int8": "i1",
    "uint16": "<u2",
    "int16": "<i2",
    "uint32": "<u4",
    "float64": "<f8",
}
SPECIAL_NUMBERS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf, "-0": -0.0}


@dataclass
class Record:
    """A recorded call of TensorFlow.js, with arrays for tensors; `is_odd` marks elements that the dtype cannot hold."""

    kernel: str
    id: str
    test: str
    attrs: dict[str, Any]
    inputs: Any = None  # a dict, or a list for the kernels that take one
    outputs: list[np.ndarray] = field(default_factory=list)
    dy: Any = None
    saved: list[np.ndarray | None] = field(default_factory=list)
    gradients: dict[str, np.ndarray] = field(default_factory=dict)
    is_odd: bool = False
    args: dict[str, Any] = field(default_factory=dict)  # of an op, by TensorFlow.js's name
    result: Any = None
    error: str = ""
    is_random: bool = False

    @property
    def arrays(self) -> list[np.ndarray]:
        """The inputs in order; lists of inputs are flattened."""
        given = list(self.inputs.values()) if isinstance(self.inputs, dict) else self.inputs
        return [x for part in given for x in (part if isinstance(part, list) else [part])]

    @property
    def x(self) -> np.ndarray:
        """The first input."""
        return self.arrays[0]


def decode_tensor(stored: dict[str, Any] | list[Any] | None) -> Any:
    """Decode a tensor, a list of tensors, or None."""
    if stored is None or isinstance(stored, list):
        return stored if stored is None else [decode_tensor(part) for part in stored]
    shape = tuple(stored["shape"])
    if "strings" in stored:
        return np.array(stored["strings"], np.dtypes.StringDType()).reshape(shape)
    values = np.frombuffer(
        base64.b64decode(stored["b64"]), NUMPY_FORMATS[stored.get("stored", stored["dtype"])]
    )
    return values[: np.prod(shape, dtype=int)].reshape(shape).copy()


class AbsentArgument:
    """An omitted argument that precedes given ones."""


@dataclass(frozen=True)
class OpaqueArgument:
    """An argument that was a function or an object of JavaScript."""

    description: str


def decode_value(stored: Any) -> Any:
    """Decode an attribute or an argument."""
    if isinstance(stored, list):
        return [decode_value(part) for part in stored]
    if not isinstance(stored, dict):
        return stored
    if "$num" in stored:
        return SPECIAL_NUMBERS[stored["$num"]]
    if "$tensor" in stored or "$buffer" in stored:
        return decode_tensor(stored.get("$tensor", stored.get("$buffer")))
    if "$typed" in stored:
        return np.frombuffer(
            base64.b64decode(stored["b64"]), NUMPY_FORMATS[stored["$typed"]]
        ).copy()
    if "$undefined" in stored:
        return AbsentArgument
    if "$fn" in stored or "$unsupported" in stored:
        return OpaqueArgument(stored.get("$fn", stored.get("$unsupported")))
    return {name: decode_value(part) for name, part in stored.items()}


def decode_record(line: str) -> Record:
    """Decode one record."""
    stored = json.loads(line)
    if stored["kind"] == "op":
        return decode_op_record(stored)
    attrs = {name: decode_value(part) for name, part in stored["attrs"].items()}
    record = Record(
        stored["kernel"], stored["id"], stored["test"], attrs, is_odd='"stored"' in line
    )
    if stored["kind"] == "kernel":
        inputs = stored["inputs"]
        is_list = isinstance(inputs, list)
        record.inputs = (
            decode_tensor(inputs) if is_list else {n: decode_tensor(x) for n, x in inputs.items()}
        )
        record.outputs = decode_tensor(stored["outputs"])
    else:
        record.dy, record.saved = decode_tensor(stored["dy"]), decode_tensor(stored["saved"])
        record.gradients = {name: decode_tensor(x) for name, x in stored["grads"].items()}
    return record


def decode_op_record(stored: dict[str, Any]) -> Record:
    """Decode a recorded call of an op."""
    record = Record(stored["op"], stored["id"], stored["test"], {})
    parameters, args = stored["params"], [decode_value(part) for part in stored["args"]]
    if parameters and parameters[0].startswith("{") and args:
        record.args = args[0]  # one object holds the arguments by name
    elif parameters and parameters[-1].startswith("..."):
        last = len(parameters) - 1
        record.args = dict(zip(parameters[:last], args, strict=False))
        record.args[parameters[-1].removeprefix("...")] = args[last:]
    else:
        record.args = dict(zip(parameters, args, strict=False))
    record.args = {n: x for n, x in record.args.items() if x is not AbsentArgument}
    record.result, record.error = decode_value(stored.get("result")), stored.get("error", "")
    record.is_random = stored.get("nondeterministic", False)
    return record


@cache
def read_records(kind: str) -> dict[str, list[Record]]:
    """Return the records of a kind, "kernels", "gradients" or "ops", by name."""
    found = defaultdict(list)
    with gzip.open(RECORDS_FOLDER / f"{kind}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(decode_record, lines):
            found[record.kernel].append(record)
    return dict(found)
