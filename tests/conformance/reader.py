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

FOLDER = Path(__file__).parent / "records"
STORED_AS = {"float32": "<f4", "int32": "<i4", "bool": "?", "complex64": "<c8", "uint8": "u1"}
NUMBERS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf, "-0": -0.0}


@dataclass
class Record:
    """One recorded call. Tensors are arrays; `is_odd` marks a store that its dtype cannot hold."""

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

    @property
    def arrays(self) -> list[np.ndarray]:
        """The inputs in order."""
        return list(self.inputs.values()) if isinstance(self.inputs, dict) else list(self.inputs)

    @property
    def x(self) -> np.ndarray:
        """The first input."""
        return self.arrays[0]


def tensor(stored: dict[str, Any] | list[Any] | None) -> Any:
    """Decode a tensor, a list of them, or None."""
    if stored is None or isinstance(stored, list):
        return stored if stored is None else [tensor(part) for part in stored]
    shape = tuple(stored["shape"])
    if "strings" in stored:
        values = np.empty(len(stored["strings"]), object)
        values[:] = stored["strings"]
        return values.reshape(shape)
    values = np.frombuffer(
        base64.b64decode(stored["b64"]), STORED_AS[stored.get("stored", stored["dtype"])]
    )
    return values[: np.prod(shape, dtype=int)].reshape(shape).copy()


def value(stored: Any) -> Any:
    """Decode an attribute."""
    if isinstance(stored, list):
        return [value(part) for part in stored]
    return NUMBERS[stored["$num"]] if isinstance(stored, dict) else stored


def decoded(line: str) -> Record:
    """Decode one record."""
    stored = json.loads(line)
    attrs = {name: value(part) for name, part in stored["attrs"].items()}
    record = Record(
        stored["kernel"], stored["id"], stored["test"], attrs, is_odd='"stored"' in line
    )
    if stored["kind"] == "kernel":
        inputs = stored["inputs"]
        is_list = isinstance(inputs, list)
        record.inputs = tensor(inputs) if is_list else {n: tensor(x) for n, x in inputs.items()}
        record.outputs = tensor(stored["outputs"])
    else:
        record.dy, record.saved = tensor(stored["dy"]), tensor(stored["saved"])
        record.gradients = {name: tensor(x) for name, x in stored["grads"].items()}
    return record


@cache
def records(kind: str) -> dict[str, list[Record]]:
    """Return the records of a kind, "kernels" or "gradients", by kernel name."""
    found = defaultdict(list)
    with gzip.open(FOLDER / f"{kind}.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(decoded, lines):
            found[record.kernel].append(record)
    return dict(found)
