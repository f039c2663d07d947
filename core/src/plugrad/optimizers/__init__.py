"""Optimizers, which move variables against their gradients.

In the formulas v is the variable, g its gradient and lr the learning rate. Where a paper leaves a
choice, the formula is that of torch.optim.
"""

from plugrad.optimizers.adaptive import (
    Adadelta as Adadelta,
    Adagrad as Adagrad,
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    RMSProp as RMSProp,
)
from plugrad.optimizers.composed import Lion as Lion, NAdam as NAdam, RAdam as RAdam
from plugrad.optimizers.descent import SGD as SGD, Momentum as Momentum
from plugrad.optimizers.gradient_transforms import (
    add_noise as add_noise,
    centralize as centralize,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    clip_by_value as clip_by_value,
)
from plugrad.optimizers.loss_scale import LossScale as LossScale
from plugrad.optimizers.optimizer import Optimizer as Optimizer
from plugrad.optimizers.quasi_newton import LBFGS as LBFGS
