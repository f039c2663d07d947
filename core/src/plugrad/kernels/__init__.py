"""The contracts of the kernels that backends implement, one module per family.

``import plugrad`` imports the families that tensors need themselves. The others are imported when they are first
used, or when somebody asks for a kernel by its name.
"""

from types import ModuleType
from typing import TYPE_CHECKING

from plugrad.contract.kernel import set_loader
from plugrad.importing import import_lazily, list_module_names

if TYPE_CHECKING:
    from plugrad.kernels import (
        activation as activation,
        attention as attention,
        binary as binary,
        bitwise as bitwise,
        complex as complex,
        convolution as convolution,
        convolution3d as convolution3d,
        creation as creation,
        decomposition as decomposition,
        depthwise as depthwise,
        detection as detection,
        fused as fused,
        image as image,
        indexing as indexing,
        linalg as linalg,
        matrix_functions as matrix_functions,
        morphology as morphology,
        movement as movement,
        normalization as normalization,
        optimizers as optimizers,
        pixels as pixels,
        pooling as pooling,
        pooling3d as pooling3d,
        ragged as ragged,
        random as random,
        rearrangement as rearrangement,
        recurrent as recurrent,
        reduction as reduction,
        resize as resize,
        scan as scan,
        scatter as scatter,
        signal as signal,
        sorting as sorting,
        sparse as sparse,
        string as string,
        unary as unary,
    )


def __getattr__(name: str) -> ModuleType:
    """Import a family when it is first used."""
    if name in list_module_names(__name__):
        return import_lazily(f"plugrad.kernels.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def __dir__() -> list[str]:
    """Return the names of the families."""
    return list(list_module_names(__name__))


def import_all_families() -> None:
    """Import the modules of all families, which declare the kernels."""
    for family in list_module_names(__name__):
        import_lazily(f"plugrad.kernels.{family}")


set_loader(import_all_families)
