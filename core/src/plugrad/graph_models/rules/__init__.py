"""Rules that write kernels, loops and branches as nodes of TensorFlow.js; importing this package registers them."""

from plugrad.graph_models.rules import general as general, loops as loops, windows as windows
from plugrad.graph_models.writing import WRITE_RULES as WRITE_RULES, GraphWriter as GraphWriter
