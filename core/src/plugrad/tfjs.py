"""Models and weights in the formats of TensorFlow.js."""

from plugrad.graph_models.exporting import save_graph_model as save_graph_model
from plugrad.graph_models.model import (
    GraphModel as GraphModel,
    load_graph_model as load_graph_model,
)
from plugrad.saving.tfjs_weights import (
    decode_weights as decode_weights,
    encode_weights as encode_weights,
    read_model as read_model,
    read_weights as read_weights,
    write_model as write_model,
    write_weights as write_weights,
)
