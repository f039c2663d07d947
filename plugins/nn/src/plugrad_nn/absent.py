"""Hints for names of other frameworks that plugrad-nn does not have."""

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


def __getattr__(name: str) -> NoReturn:
    """Raise an error for a name that plugrad-nn lacks; for names of other libraries, name the replacement."""
    raise_missing_name(sys.modules["plugrad_nn"], MISSING_NAME_HINTS, name)
