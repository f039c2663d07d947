# %% [markdown]
# # What moves a pendulum?
#
# Someone has filmed a pendulum and measured its angle, not very well. How long is it, how strong is the friction, and
# where did it start? A program that simulates pendulums answers that backwards: plugrad differentiates the simulation.

# %%
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import plugrad

MEASUREMENT_COUNT = 160
TIME_STEP = 0.05  # seconds between measurements
TRAINING_STEPS = 120  # of the optimizer
Number = float | plugrad.Tensor

# %% [markdown]
# Newton's law gives the acceleration of the angle. Each step of time moves the speed and then the angle.


# %%
def simulate(length: Number, friction: Number, angle: Number) -> plugrad.Tensor:
    angles: list[Number] = []
    speed: Number = 0.0
    for _ in range(MEASUREMENT_COUNT):
        angles.append(angle)
        speed = speed - TIME_STEP * (9.81 / length * plugrad.sin(angle) + friction * speed)
        angle = angle + TIME_STEP * speed
    return plugrad.stack(angles)


times = TIME_STEP * np.arange(MEASUREMENT_COUNT)
true_values = {"length": 1.7, "friction": 0.25, "angle": 1.2}
noise = np.random.default_rng(0).normal(scale=0.08, size=MEASUREMENT_COUNT)
measured_angles = simulate(**true_values) + noise.astype(np.float32)

# %% [markdown]
# The loss is how far a simulation is from the measurements. Its gradient runs back through all steps of time, and the
# optimizer follows it. Far from the truth, the end of a long simulation says little, so later measurements count only
# once the earlier ones fit.

# %%
variables = {
    name: plugrad.Variable(start, name=name)
    for name, start in {"length": 1.0, "friction": 0.0, "angle": 0.5}.items()
}
optimizer = plugrad.optimizers.Adam(0.03)
first_guess, losses = simulate(**variables).numpy(), []


def loss(weights: plugrad.Tensor) -> plugrad.Tensor:
    return plugrad.sum(weights * (simulate(**variables) - measured_angles) ** 2) / plugrad.sum(
        weights
    )


for step in range(TRAINING_STEPS):
    reach = MEASUREMENT_COUNT * TIME_STEP * (0.1 + step / TRAINING_STEPS)  # seconds that count
    weights = plugrad.asarray(np.exp(-((times / reach) ** 4)), dtype="float32")
    losses.append(optimizer.minimize(partial(loss, weights), variables.values()).item())

fitted_values = {name: round(variable.item(), 2) for name, variable in variables.items()}
print(f"found {fitted_values}\n true {true_values}")

# %% [markdown]
# The grey line is the first guess, the blue one what was found, and the dots are the measurements.

# %%
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.plot(times, first_guess, color="0.7", label="first guess")
axes.plot(times, simulate(**variables), color="tab:blue", label="found")
axes.plot(times, measured_angles, ".", color="tab:orange", label="measured")
axes.set(
    xlabel="seconds", ylabel="angle", title=", ".join(f"{k} {v}" for k, v in fitted_values.items())
)
axes.legend(loc="upper right")
figure.savefig("pendulum.png", dpi=120)
