"""Models of layers in the format of TensorFlow.js, which is that of Keras 2.

>>> import tempfile
>>> from plugrad_nn import tfjs
>>> model = nn.Sequential(nn.Dense(8, plugrad.relu), nn.Dense(2))
>>> params, folder = model.init(0, (3,)), tempfile.mkdtemp()
>>> tfjs.save_layers_model(model, params, (3,), folder)
>>> graph, weights = tfjs.load_layers_model(folder)
>>> bool(plugrad.all(graph(weights, plugrad.ones((1, 3))) == model(params, plugrad.ones((1, 3)))))
True
"""

from plugrad_nn.tfjs.activations import hard_sigmoid as hard_sigmoid
from plugrad_nn.tfjs.reading import load_layers_model as load_layers_model
from plugrad_nn.tfjs.writing import save_layers_model as save_layers_model
