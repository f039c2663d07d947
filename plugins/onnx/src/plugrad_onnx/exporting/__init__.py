"""Writing functions as models of ONNX."""

from plugrad_onnx.exporting import places as places, recurrent as recurrent, rules as rules
from plugrad_onnx.exporting.tracing import export as export
