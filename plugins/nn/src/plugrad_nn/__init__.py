"""plugrad-nn: layers, losses, metrics and a training loop for plugrad, on every backend.

>>> model = nn.Sequential(nn.Dense(8, plugrad.relu), nn.Dense(2))
>>> params = model.init(0, (3,))
>>> model(params, plugrad.ones((5, 3))).shape
(5, 2)
"""

from typing import TYPE_CHECKING

from plugrad_nn import (
    initializers as initializers,
    losses as losses,
    metrics as metrics,
    schedules as schedules,
)
from plugrad_nn.attention import MultiHeadAttention as MultiHeadAttention
from plugrad_nn.convolution import (
    Conv1D as Conv1D,
    Conv2D as Conv2D,
    Conv3D as Conv3D,
    DepthwiseConv2D as DepthwiseConv2D,
)
from plugrad_nn.data import batches as batches, shuffled as shuffled
from plugrad_nn.dense import (
    Dense as Dense,
    Embedding as Embedding,
    Flatten as Flatten,
    PositionEmbedding as PositionEmbedding,
)
from plugrad_nn.dropout import Dropout as Dropout
from plugrad_nn.layer import (
    INFERENCE as INFERENCE,
    Layer as Layer,
    Mode as Mode,
    Training as Training,
)
from plugrad_nn.normalization import (
    BatchNorm as BatchNorm,
    GroupNorm as GroupNorm,
    LayerNorm as LayerNorm,
)
from plugrad_nn.parameters import Params as Params, assign as assign, leaves as leaves
from plugrad_nn.pooling import (
    AveragePooling1D as AveragePooling1D,
    AveragePooling2D as AveragePooling2D,
    AveragePooling3D as AveragePooling3D,
    GlobalAveragePooling as GlobalAveragePooling,
    GlobalMaxPooling as GlobalMaxPooling,
    MaxPooling1D as MaxPooling1D,
    MaxPooling2D as MaxPooling2D,
    MaxPooling3D as MaxPooling3D,
)
from plugrad_nn.recurrent import GRU as GRU, LSTM as LSTM
from plugrad_nn.sequential import Residual as Residual, Sequential as Sequential
from plugrad_nn.strategy import Strategy as Strategy
from plugrad_nn.training import (
    EarlyStopping as EarlyStopping,
    evaluate as evaluate,
    fit as fit,
    predict as predict,
)
from plugrad_nn.transposed import (
    Conv1DTranspose as Conv1DTranspose,
    Conv2DTranspose as Conv2DTranspose,
    Conv3DTranspose as Conv3DTranspose,
)

if not TYPE_CHECKING:  # checkers would take every name for one that exists
    from plugrad_nn.absent import __getattr__ as __getattr__
