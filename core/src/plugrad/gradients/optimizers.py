"""Steps of optimizers are not differentiated."""

from plugrad.kernels import optimizers
from plugrad.tape.rules import not_differentiable

not_differentiable(
    optimizers.gradient_descent,
    optimizers.momentum,
    optimizers.adagrad,
    optimizers.adadelta,
    optimizers.rmsprop,
    optimizers.centered_rmsprop,
    optimizers.adam,
    optimizers.adamax,
    because="the variables that they move are constants to whatever comes later",
)
