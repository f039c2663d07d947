"""Hints for names of other frameworks that plugrad-nn and its layers do not have."""

import sys
from typing import NoReturn

from plugrad.extend import raise_missing_name

MISSING_NAME_HINTS = {
    "CrossEntropyLoss": "write nn.losses.sparse_softmax_cross_entropy(labels, logits)",
    "DataLoader": "write nn.batches(arrays, size)",
    "GELU": "write plugrad.gelu, a function that layers take, and that can stand among them",
    "L1Loss": "write plugrad.losses.absolute_difference(labels, predictions)",
    "Linear": "write nn.Dense(units)",
    "MSELoss": "write plugrad.losses.mean_squared_error(labels, predictions)",
    "Model": "write nn.Sequential(*layers), nn.Graph(inputs, nodes, outputs), or a function of your parameters",
    "Module": "write nn.Sequential(*layers), nn.Graph(inputs, nodes, outputs), or a function of your parameters",
    "ReLU": "write plugrad.relu, a function that layers take, and that can stand among them",
    "Sigmoid": "write plugrad.sigmoid, a function that layers take, and that can stand among them",
    "Softmax": "write plugrad.softmax, a function that layers take, and that can stand among them",
    "Tanh": "write plugrad.tanh, a function that layers take, and that can stand among them",
    "functional": "write plugrad.relu and the like: ops are functions of plugrad",
    "optim": "write plugrad.optimizers.Adam() and the like",
    "optimizers": "write plugrad.optimizers.Adam() and the like",
}
"""Hints by the names of classes and functions that other frameworks have."""

_INIT_HINT = "parameters are not in the layer: write params = model.init(seed, shape), with the shape of one input"
MISSING_ATTRIBUTE_HINTS = {
    "add": "layers do not change: write nn.Sequential(*layers)",
    "apply": "write model(params, x)",
    "backward": "write optimizer.minimize(f, nn.leaves(params)), which computes gradients and takes a step",
    "bias": _INIT_HINT,
    "compile": "write nn.fit(model, params, x, y, loss=loss, optimizer=optimizer)",
    "cpu": "parameters are on the backend that was active in init, as in plugrad.use(name)",
    "cuda": "parameters are on the backend that was active in init, as in plugrad.use(name)",
    "eval": "write model(params, x), which is inference; a step of training is model(params, x, nn.Training(seed))",
    "evaluate": "write nn.evaluate(model, params, x, y, loss=loss)",
    "fit": "write nn.fit(model, params, x, y, loss=loss, optimizer=optimizer)",
    "forward": "write model(params, x)",
    "load_state_dict": "write nn.assign(params, plugrad.load(path))",
    "load_weights": "write nn.assign(params, plugrad.load(path))",
    "parameters": f"{_INIT_HINT}; nn.leaves(params) lists them",
    "predict": "write nn.predict(model, params, x)",
    "save": "write plugrad.save(path, params)",
    "save_weights": "write plugrad.save(path, params)",
    "state_dict": "the parameters are a nested dict, which plugrad.save(path, params) writes",
    "summary": "write nn.summary(model, params, shape)",
    "to": "parameters are on the backend that was active in init, as in plugrad.use(name)",
    "train": "write model(params, x, nn.Training(seed)) for a step of training",
    "trainable_variables": f"{_INIT_HINT}; nn.leaves(params) lists them",
    "trainable_weights": f"{_INIT_HINT}; nn.leaves(params) lists them",
    "variables": f"{_INIT_HINT}; nn.leaves(params) lists them",
    "weight": _INIT_HINT,
    "weights": f"{_INIT_HINT}; nn.leaves(params) lists them",
}
"""Hints by the names of attributes that models of other libraries have."""


def __getattr__(name: str) -> NoReturn:
    """Raise an error for a name that plugrad-nn lacks; for names of other libraries, name the replacement."""
    raise_missing_name(sys.modules["plugrad_nn"], MISSING_NAME_HINTS, name)
