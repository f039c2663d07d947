"""Writing functions as models of ONNX."""

from plugrad_onnx.exporting import indexing as indexing, recurrent as recurrent, rules as rules
from plugrad_onnx.exporting.tracing import export as export
