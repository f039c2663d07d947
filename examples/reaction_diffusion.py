# %% [markdown]
# # Patterns from two chemicals
#
# Turing asked in 1952 how a leopard gets its spots. In the model of Gray and Scott (1984), two substances spread over a
# surface. Where they meet, V eats U and makes more V. That is enough for patterns that grow like corals.

# %%
import matplotlib.pyplot as plt
import numpy as np

import plugrad

GRID_SIZE, STEP_COUNT, FRAME_COUNT = 160, 4000, 4
FEED_RATE, KILL_RATE = 0.055, 0.062  # corals; 0.0367 and 0.0649 are cells that divide

# %% [markdown]
# A substance flows to where there is less of it than around. The surface has no edges: what leaves on the right comes
# back on the left, which is what `roll` does.


# %%
def laplacian(x: plugrad.Tensor) -> plugrad.Tensor:
    sides = sum(plugrad.roll(x, shift, axis=axis) for shift in (-1, 1) for axis in (0, 1))
    corners = sum(plugrad.roll(x, (a, b), axis=(0, 1)) for a in (-1, 1) for b in (-1, 1))
    return 0.2 * sides + 0.05 * corners - x


def step(u: plugrad.Tensor, v: plugrad.Tensor) -> tuple[plugrad.Tensor, plugrad.Tensor]:
    reaction = u * v * v
    u = u + laplacian(u) - reaction + FEED_RATE * (1 - u)
    v = v + laplacian(v) / 2 + reaction - (FEED_RATE + KILL_RATE) * v
    return u, v


# %% [markdown]
# At first there is U everywhere, and a little V in a few places.

# %%
rng = np.random.default_rng(0)
initial_v = np.zeros((GRID_SIZE, GRID_SIZE), np.float32)
for row, column in rng.integers(GRID_SIZE - 8, size=(12, 2)):
    initial_v[row : row + 8, column : column + 8] = rng.uniform(0.3, 0.6, (8, 8))
u, v = plugrad.asarray(1 - initial_v), plugrad.asarray(initial_v)

# %% [markdown]
# Thousands of steps follow. Nothing is read back from the device but the pictures.

# %%
pictures = []
for number in range(STEP_COUNT):
    u, v = step(u, v)
    if (number + 1) % (STEP_COUNT // FRAME_COUNT) == 0:
        pictures.append(v.numpy())

figure, axes = plt.subplots(1, FRAME_COUNT, figsize=(3 * FRAME_COUNT, 3.2), layout="constrained")
for i, (ax, picture) in enumerate(zip(axes, pictures, strict=True)):
    ax.imshow(picture, cmap="magma", interpolation="bicubic")
    ax.set(title=f"step {(i + 1) * STEP_COUNT // FRAME_COUNT:,}", xticks=[], yticks=[])
figure.savefig("reaction_diffusion.png", dpi=100)
