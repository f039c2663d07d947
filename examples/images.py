# %% [markdown]
# # Filter and warp a picture
#
# A picture is a tensor: rows, columns, colours. A filter is a convolution, and a warp takes each pixel from elsewhere.

# %%
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data

import plugrad

IMAGE_SIZE = 256

pixels = plt.imread(get_sample_data("grace_hopper.jpg", asfileobj=False))[20:532]  # a square
original = plugrad.image.resize_bilinear(
    plugrad.image.from_pixels(pixels) / 255, (IMAGE_SIZE, IMAGE_SIZE)
)

# %% [markdown]
# ## Filters
#
# A depthwise convolution filters each colour by itself. A blur is two of them, down and across. What the blur took
# away are the details, and twice of them make the picture sharper. Sobel's filters find edges.


# %%
def convolve(image: plugrad.Tensor, *kernels: np.ndarray) -> plugrad.Tensor:
    for values in kernels:
        kernel = plugrad.asarray(values.astype(np.float32))[..., None, None]
        kernel = plugrad.tile(kernel, (1, 1, image.shape[-1], 1))
        image = plugrad.depthwise_conv2d(image[None], kernel, padding="same")[0]
    return image


gaussian = np.exp(-((np.arange(-6, 7) / 3) ** 2) / 2)
gaussian /= gaussian.sum()
blurred = convolve(original, gaussian[:, None], gaussian[None, :])
sharpened = original + 2 * (original - blurred)

grayscale = plugrad.image.resize_bilinear(
    plugrad.mean(original, axis=-1, keepdims=True), (IMAGE_SIZE, IMAGE_SIZE)
)
vertical_gradient = convolve(grayscale, np.outer([1, 0, -1], [1, 2, 1]))
edges = plugrad.hypot(vertical_gradient, convolve(grayscale, np.outer([1, 2, 1], [1, 0, -1])))

# %% [markdown]
# ## Warps
#
# `transform` looks at the picture from another side: eight numbers say where each pixel comes from. For a warp of your
# own, compute where, and pick: an index of two tensors takes one pixel for each pair.

# %%
projection = [1.2, 0.3, -50, 0.0, 1.3, -35, 0.0, 0.0016]
tilted = plugrad.image.transform(original[None], [projection], interpolation="bilinear")[0]

coordinates = plugrad.linspace(-1, 1, IMAGE_SIZE)
y, x = plugrad.meshgrid(coordinates, coordinates, indexing="ij")
radius = plugrad.hypot(x, y)
swirled_angle = plugrad.atan2(y, x) + 3 * plugrad.maximum(1 - radius, 0) ** 2
rows, columns = (
    plugrad.clip((part * radius + 1) * (IMAGE_SIZE / 2), 0, IMAGE_SIZE - 1).astype("int32")
    for part in (plugrad.sin(swirled_angle), plugrad.cos(swirled_angle))
)
swirled = original[rows, columns]

# %%
images_by_title = {
    "original": original,
    "blurred": blurred,
    "sharper": sharpened,
    "edges": 1 - edges,
    "from the side": tilted,
    "swirled": swirled,
}
figure, axes = plt.subplots(2, 3, figsize=(9, 6.4), layout="constrained")
for ax, (title, image) in zip(axes.flat, images_by_title.items(), strict=True):
    ax.imshow(plugrad.clip(image, 0, 1), cmap="gray")
    ax.set(title=title, xticks=[], yticks=[])
figure.savefig("images.jpg", dpi=100)
