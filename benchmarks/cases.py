"""Cases of the kernel scan: functions that plugrad and PyTorch both have, forward or backward.

PyTorch gets images in its order of axes and with the channels last in memory, as plugrad has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import plugrad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

try:
    import torch
    from torch.nn import functional
except ImportError:  # then plugrad's backends are compared with each other
    torch: Any = None
    functional: Any = None

Array = NDArray[Any]
IMAGES: Final = (0, 3, 1, 2)
"""The order of an image batch's axes in PyTorch."""
FILTERS: Final = (3, 2, 0, 1)
"""The order of the axes of convolution filters in PyTorch."""
THIN_FILTERS: Final = (2, 3, 0, 1)
"""The order of the axes of depthwise filters in PyTorch."""
QUICK_MAX_SIZE: Final = 24
"""The maximum length of an axis in a quick run."""


class Case(NamedTuple):
    """A function in plugrad and in PyTorch, and its input arrays."""

    family: str
    name: str
    in_plugrad: Callable[..., Any]
    in_torch: Callable[..., Any] | None
    inputs: tuple[Array, ...]
    gradient_positions: tuple[int, ...] = ()
    """The positions of the inputs whose gradients are computed; empty for the value alone."""
    axes: tuple[tuple[int, ...] | None, ...] = ()
    """The order of each input's axes in PyTorch, if it differs."""
    out: tuple[int, ...] | None = None
    """The order of the result's axes in PyTorch, if it differs."""
    is_random: bool = False
    """Whether the values are random, and only shapes can be compared."""
    is_prepared: bool = False
    """Whether the functions take the inputs once and return what is measured."""


class Cases:
    """A collection of cases; the arrays are small in a quick run."""

    def __init__(self, families: Mapping[str, Callable[[Cases], None]], *, quick: bool) -> None:
        """Collect the cases of the families."""
        self.quick = quick
        self.generator = np.random.default_rng(0)
        self.found: list[Case] = []
        for family, collect in families.items():
            self.family = family
            collect(self)

    def add(
        self,
        name: str,
        in_plugrad: Callable[..., Any],
        in_torch: Callable[..., Any] | None,
        *inputs: Array,
        gradient_positions: Sequence[int] | None = None,
        **case_fields: Any,
    ) -> None:
        """Add a case; with `gradient_positions`, also a case of the gradients of these inputs."""
        case = Case(self.family, name, in_plugrad, in_torch, inputs, **case_fields)
        self.found.append(case)
        if gradient_positions is not None:
            self.found.append(
                case._replace(
                    name=f"{name}, gradient", gradient_positions=tuple(gradient_positions)
                )
            )

    def add_same_names(
        self, function_names: str, *inputs: Array, gradient_positions: Sequence[int] | None = None
    ) -> None:
        """Add a case for each function that has the same name in both libraries; names are separated by spaces."""
        dtype = inputs[0].dtype.name
        suffix = "" if dtype == "float32" else f" {dtype}"
        for name in function_names.split():
            home = torch if hasattr(torch, name) else functional
            in_torch = None if torch is None else getattr(home, TORCH_NAMES.get(name, name))
            self.add(
                f"{name}{suffix}",
                getattr(plugrad, name),
                in_torch,
                *inputs,
                gradient_positions=gradient_positions,
            )

    def axis_size(self, size: int) -> int:
        """Return a size of an axis, limited to QUICK_MAX_SIZE in a quick run."""
        return min(size, QUICK_MAX_SIZE) if self.quick else size

    def uniform(self, *shape: int, low: float = -1, high: float = 1, dtype: str = "f4") -> Array:
        """Return uniformly distributed numbers in [low, high)."""
        return self.generator.uniform(low, high, [self.axis_size(n) for n in shape]).astype(dtype)

    def integers(self, *shape: int, high: int = 100, dtype: str = "i4") -> Array:
        """Return random integers in [0, high)."""
        return self.generator.integers(
            0, self.axis_size(high), [self.axis_size(n) for n in shape]
        ).astype(dtype)

    def complex(self, *shape: int) -> Array:
        """Return random complex numbers."""
        return (self.uniform(*shape) + 1j * self.uniform(*shape)).astype("c8")


TORCH_NAMES: Final = {
    "equal": "eq",
    "less": "lt",
    "divide": "div",
    "floor_divide": "floor_divide",
    "matrix_transpose": "t",
}
