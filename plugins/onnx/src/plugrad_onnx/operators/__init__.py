"""The operators of ONNX, one module for each family."""

from plugrad_onnx.operators import (
    activation as activation,
    control as control,
    convolution as convolution,
    creation as creation,
    elementwise as elementwise,
    expansion as expansion,
    image as image,
    indexing as indexing,
    learning as learning,
    linear as linear,
    movement as movement,
    normalization as normalization,
    pooling as pooling,
    quantization as quantization,
    recurrent as recurrent,
    reduction as reduction,
    sequences as sequences,
    signal as signal,
    text as text,
)
