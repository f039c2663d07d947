"""Writing functions as models of ONNX."""

from plugrad_onnx.exporting import rules as rules
from plugrad_onnx.exporting.tracing import export as export
