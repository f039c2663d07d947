"""The kernels, one module for each family; importing them declares them in `table`."""

from plugrad_torch.declare import table as table
from plugrad_torch.kernels import (
    activation as activation,
    attention as attention,
    binary as binary,
    bitwise as bitwise,
    complex as complex,
    convolution as convolution,
    creation as creation,
    decomposition as decomposition,
    host as host,
    indexing as indexing,
    linalg as linalg,
    morphology as morphology,
    movement as movement,
    normalization as normalization,
    pooling as pooling,
    rearrangement as rearrangement,
    reduction as reduction,
    resize as resize,
    scan as scan,
    scatter as scatter,
    signal as signal,
    sorting as sorting,
    unary as unary,
)
