"""Images, poolings and what multiplies their gradients, for the tests of programs that run image by image."""

import numpy as np

import plugrad


def random_images(*shape, seed=0, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return plugrad.asarray(values)


def special_images(*shape, dtype="float32"):
    """Images in which windows have several NaN, infinities, equal maxima and zeros of both signs."""
    rng = np.random.default_rng(1)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1.0, -1.0], dtype)
    return plugrad.asarray(special[rng.integers(len(special), size=shape)])


def make_gradient(activate, summarize):
    """Return the gradient of an activation and a pooling behind it, with respect to the images, times a weight."""

    def loss(x, w):
        return plugrad.sum(summarize(activate(x * 1.5)) * w)

    return plugrad.grad(loss)


POOLINGS = {
    "tiles": lambda x: plugrad.max_pool(x, 2),
    "overlapping": lambda x: plugrad.max_pool(x, 3, strides=2, padding="same"),
    "gaps": lambda x: plugrad.max_pool(x, 2, strides=3),
    "dilated": lambda x: plugrad.max_pool(x, 2, strides=1, dilations=2),
    "averages": lambda x: plugrad.avg_pool(x, 2),
    "overlapping averages": lambda x: plugrad.avg_pool(x, 3, strides=1, padding="same"),
}
ACTIVATIONS = {
    "relu": plugrad.relu,
    "relu6": plugrad.relu6,
    "leaky relu": plugrad.leaky_relu,
    "gelu": plugrad.gelu,
    "tanh": plugrad.tanh,
}


def pool_gradient(x):
    """Return the gradient of the sum of the squares of the largest elements."""
    return plugrad.grad(lambda x: plugrad.sum(plugrad.max_pool(x, 2) ** 2))(x)


def random_values(*shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


IMAGES_SHAPE = 6, 8, 8, 4
CHANNEL_VALUES, IMAGE_CHANNEL_VALUES = random_values(4, seed=1), random_values(6, 1, 1, 4, seed=2)
LINE_VALUES, ELEMENT_VALUES = (
    random_values(1, 8, 1, 1, seed=3),
    random_values(*IMAGES_SHAPE, seed=4),
)
JOINED_FUNCTIONS = [
    lambda x: pool_gradient(x) * CHANNEL_VALUES,
    lambda x: pool_gradient(x) * IMAGE_CHANNEL_VALUES + LINE_VALUES,
    lambda x: pool_gradient(x) * ELEMENT_VALUES,
    lambda x: (dx := pool_gradient(x), dx * x),
    lambda x: pool_gradient(x) + pool_gradient(x * 2) * x,
    lambda x: plugrad.where(x > 0, pool_gradient(x), 0),
    lambda x: plugrad.sum(pool_gradient(x) * x, axis=(1, 2)),
    lambda x: pool_gradient(pool_gradient(x) * x) * x,
    lambda x: pool_gradient(plugrad.permute_dims(x, (0, 2, 1, 3))) * x,
    lambda x: (y := plugrad.exp(x), pool_gradient(y) * y)[1],
    lambda x: (y := plugrad.exp(x), pool_gradient(y) * y),
    lambda x: (y := plugrad.exp(x), plugrad.cumulative_sum(y, axis=1), pool_gradient(y) * y)[1:],
    lambda x: (y := plugrad.exp(x), pool_gradient(y) * y * plugrad.sum(y.reshape(-1)))[1],
    lambda x: (y := plugrad.exp(x), (pool_gradient(y) * y).reshape(-1) + y.reshape(-1))[1],
    lambda x: (y := plugrad.exp(x), pool_gradient(y) * y + y)[1],
]
"""Functions with a gradient of a pooling that elementwise calls read; images may or may not be needed later."""
SEPARATE_FUNCTIONS = [
    pool_gradient,
    lambda x: pool_gradient(x).reshape(-1) * 2,
    lambda x: pool_gradient(x)[::-1] * x,
    lambda x: plugrad.softmax(pool_gradient(x)),
]
"""Functions with nothing to fuse, or calls of another shape, or that need all images."""
