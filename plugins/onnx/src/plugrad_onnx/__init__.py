"""Run and fine-tune ONNX models with plugrad, on every backend."""

from plugrad_onnx import operators as _operators
from plugrad_onnx.errors import (
    InvalidModel as InvalidModel,
    NodeFailed as NodeFailed,
)
from plugrad_onnx.exporting import export as export
from plugrad_onnx.model import Model as Model, load as load
from plugrad_onnx.registry import operator as operator

del _operators
