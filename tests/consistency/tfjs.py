"""Read tfjs_names.toml, tfjs_ops.txt and tfjs_kernels.txt: where each op of TensorFlow.js is in plugrad."""

import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import plugrad
from plugrad.engine.tensorflow_js import WINDOW_ATTRIBUTE_NAMES
from plugrad.extend import KERNELS

DATA_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class TfjsOp:
    """How to call a TensorFlow.js op in plugrad, by a function or a kernel; or the reason why it is missing."""

    op: str
    plugrad: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)
    for_integers: str = ""
    rank: int | None = None
    reason: str = ""

    @property
    def kernel(self) -> str:
        """The name of the kernel that corresponds to the op, or ""."""
        return self.plugrad.removeprefix("kernel ") if self.plugrad.startswith("kernel ") else ""

    @property
    def target(self) -> Callable[..., Any]:
        """The function that corresponds to the op, or the shape rule of its kernel."""
        return KERNELS[self.kernel].rule if self.kernel else attrgetter(self.plugrad)(plugrad)

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters of the target by name."""
        found = dict(inspect.signature(self.target).parameters)
        if self.kernel and "window" in found:  # `run_kernel` makes it of TensorFlow.js's attributes
            found |= dict.fromkeys(WINDOW_ATTRIBUTE_NAMES, found["window"])
            del found["window"]
        return found


@cache
def tfjs_kernels() -> frozenset[str]:
    """Return the names of TensorFlow.js's kernels."""
    return frozenset((DATA_FOLDER / "tfjs_kernels.txt").read_text("utf-8").split())


@cache
def tfjs_ops() -> dict[str, TfjsOp]:
    """Return all ops of TensorFlow.js by name, with their counterparts in plugrad."""
    table = tomllib.loads((DATA_FOLDER / "tfjs_names.toml").read_text("utf-8"))
    return {op: TfjsOp(op, **entry) for op, entry in table.items()}


@cache
def tfjs_signatures() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the name and the parameters of each op as TensorFlow.js spells them."""
    found = {}
    for line in (DATA_FOLDER / "tfjs_ops.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        signature, spelling = line.rsplit(maxsplit=1)
        op, _, inside = signature.strip().removesuffix(")").partition("(")
        found[op] = spelling, tuple(inside.split(", ")) if inside else ()
    return found
