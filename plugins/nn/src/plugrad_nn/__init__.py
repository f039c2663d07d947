"""plugrad-nn: layers, losses, metrics and a training loop for plugrad, on every backend.

>>> model = nn.Sequential(nn.Dense(8, plugrad.relu), nn.Dense(2))
>>> params = model.init(0, (3,))
>>> model(params, plugrad.ones((5, 3))).shape
(5, 2)
"""

from typing import TYPE_CHECKING

from plugrad_nn import (
    augment as augment,
    convert as convert,
    data as data,
    initializers as initializers,
    losses as losses,
    metrics as metrics,
    schedules as schedules,
)
from plugrad_nn.attention import (
    MultiHeadAttention as MultiHeadAttention,
    rotate_positions as rotate_positions,
)
from plugrad_nn.augment import Augment as Augment
from plugrad_nn.averages import MovingAverage as MovingAverage
from plugrad_nn.batching import batches as batches, shuffled as shuffled
from plugrad_nn.callbacks import (
    Callback as Callback,
    Checkpoint as Checkpoint,
    CSVLogger as CSVLogger,
)
from plugrad_nn.convolution import (
    Conv1D as Conv1D,
    Conv2D as Conv2D,
    Conv3D as Conv3D,
    DepthwiseConv2D as DepthwiseConv2D,
    SeparableConv2D as SeparableConv2D,
)
from plugrad_nn.dense import (
    Dense as Dense,
    Embedding as Embedding,
    EmbeddingBag as EmbeddingBag,
    Flatten as Flatten,
    PositionEmbedding as PositionEmbedding,
    PReLU as PReLU,
)
from plugrad_nn.dropout import (
    AlphaDropout as AlphaDropout,
    Dropout as Dropout,
    GaussianDropout as GaussianDropout,
    GaussianNoise as GaussianNoise,
    SpatialDropout as SpatialDropout,
)
from plugrad_nn.evaluation import (
    evaluate as evaluate,
    predict as predict,
)
from plugrad_nn.graph import (
    Graph as Graph,
)
from plugrad_nn.layer import (
    INFERENCE as INFERENCE,
    Layer as Layer,
    Mode as Mode,
    Training as Training,
)
from plugrad_nn.loggers import LivePlot as LivePlot, MLflow as MLflow, TensorBoard as TensorBoard
from plugrad_nn.merging import (
    Add as Add,
    Average as Average,
    Concatenate as Concatenate,
    Dot as Dot,
    Maximum as Maximum,
    Minimum as Minimum,
    Multiply as Multiply,
    Subtract as Subtract,
)
from plugrad_nn.normalization import (
    BatchNorm as BatchNorm,
    GroupNorm as GroupNorm,
    InstanceNorm as InstanceNorm,
    LayerNorm as LayerNorm,
    RMSNorm as RMSNorm,
)
from plugrad_nn.parameters import Params as Params, assign as assign, leaves as leaves
from plugrad_nn.pooling import (
    AdaptiveAveragePooling1D as AdaptiveAveragePooling1D,
    AdaptiveAveragePooling2D as AdaptiveAveragePooling2D,
    AdaptiveAveragePooling3D as AdaptiveAveragePooling3D,
    AdaptiveMaxPooling1D as AdaptiveMaxPooling1D,
    AdaptiveMaxPooling2D as AdaptiveMaxPooling2D,
    AdaptiveMaxPooling3D as AdaptiveMaxPooling3D,
    AveragePooling1D as AveragePooling1D,
    AveragePooling2D as AveragePooling2D,
    AveragePooling3D as AveragePooling3D,
    GlobalAveragePooling as GlobalAveragePooling,
    GlobalMaxPooling as GlobalMaxPooling,
    MaxPooling1D as MaxPooling1D,
    MaxPooling2D as MaxPooling2D,
    MaxPooling3D as MaxPooling3D,
)
from plugrad_nn.prefetching import prefetch as prefetch
from plugrad_nn.preprocessing import (
    CategoryEncoding as CategoryEncoding,
    CenterCrop as CenterCrop,
    Resizing as Resizing,
)
from plugrad_nn.rates import (
    LearningRateScheduler as LearningRateScheduler,
    ReduceLROnPlateau as ReduceLROnPlateau,
)
from plugrad_nn.recurrent import (
    GRU as GRU,
    LSTM as LSTM,
    Bidirectional as Bidirectional,
    ConvLSTM2D as ConvLSTM2D,
    Masked as Masked,
    SimpleRNN as SimpleRNN,
    TimeDistributed as TimeDistributed,
)
from plugrad_nn.sequential import Residual as Residual, Sequential as Sequential
from plugrad_nn.shapes import (
    Cropping1D as Cropping1D,
    Cropping2D as Cropping2D,
    Cropping3D as Cropping3D,
    Permute as Permute,
    PixelShuffle as PixelShuffle,
    RepeatVector as RepeatVector,
    Rescaling as Rescaling,
    Reshape as Reshape,
    UpSampling1D as UpSampling1D,
    UpSampling2D as UpSampling2D,
    UpSampling3D as UpSampling3D,
    ZeroPadding1D as ZeroPadding1D,
    ZeroPadding2D as ZeroPadding2D,
    ZeroPadding3D as ZeroPadding3D,
)
from plugrad_nn.stacks import (
    TransformerDecoder as TransformerDecoder,
    TransformerEncoder as TransformerEncoder,
)
from plugrad_nn.stopping import EarlyStopping as EarlyStopping
from plugrad_nn.strategy import Strategy as Strategy
from plugrad_nn.summary import (
    summary as summary,
)
from plugrad_nn.training import fit as fit
from plugrad_nn.transformer import (
    TransformerDecoderBlock as TransformerDecoderBlock,
    TransformerEncoderBlock as TransformerEncoderBlock,
)
from plugrad_nn.transposed import (
    Conv1DTranspose as Conv1DTranspose,
    Conv2DTranspose as Conv2DTranspose,
    Conv3DTranspose as Conv3DTranspose,
)
from plugrad_nn.unpooling import (
    MaxUnpooling1D as MaxUnpooling1D,
    MaxUnpooling2D as MaxUnpooling2D,
    MaxUnpooling3D as MaxUnpooling3D,
)
from plugrad_nn.weights import (
    Parametrized as Parametrized,
    SpectralNorm as SpectralNorm,
    WeightNorm as WeightNorm,
)

if not TYPE_CHECKING:  # checkers would take every name for one that exists
    from plugrad_nn.absent import __getattr__ as __getattr__
