"""SciPy and scikit-learn compute with tensors of plugrad, on the device where these live.

    python examples/ecosystem.py
    PLUGRAD_BACKEND=webgpu python examples/ecosystem.py     on another backend

Both libraries take arrays of any library that follows the Python array API standard, as plugrad does.
What has no such path takes NumPy arrays, and a tensor becomes one when it is asked.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from scipy import ndimage, optimize, special
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import plugrad

DIGIT_COUNT = 1797

digits_file = Path(__file__).parent / "data" / "digits.csv.gz"
table = np.loadtxt(digits_file, delimiter=",", dtype=np.float32, max_rows=DIGIT_COUNT)
images, digits = plugrad.asarray(table[:, :64] / 16), plugrad.asarray(table[:, 64], dtype="int32")

# scikit-learn runs on the tensors themselves.
with sklearn.config_context(array_api_dispatch=True):
    analysis = LinearDiscriminantAnalysis(n_components=2).fit(images, digits)
    projected = analysis.transform(images)
print("scikit-learn gives a", type(projected).__name__, "on", projected.device)

# So does SciPy, and plugrad differentiates what is made of its ops: here, the softmax.
softmax = plugrad.grad(special.logsumexp)(images[0])
print("the gradient of SciPy's logsumexp sums to", f"{plugrad.sum(softmax).item():.4f}")
smoothed_digit = ndimage.gaussian_filter(images[0].reshape(8, 8), sigma=0.7)


# SciPy's optimizers want NumPy. They get the value and the gradient of a function of plugrad.
def rosenbrock(v: Any) -> Any:
    return (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2


def value_and_gradient(v: np.ndarray) -> tuple[float, np.ndarray]:
    value, gradient = plugrad.value_and_grad(rosenbrock)(plugrad.asarray(v, dtype="float32"))
    return value.item(), gradient.numpy().astype(np.float64)


bfgs_path = [np.array([-1.5, 2.0])]
optimize.minimize(
    value_and_gradient, bfgs_path[0], jac=True, method="BFGS", callback=bfgs_path.append, tol=1e-3
)
print("BFGS ends at", np.round(bfgs_path[-1], 2))

# Matplotlib draws tensors.
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
left.scatter(projected[:, 0], projected[:, 1], c=digits, cmap="tab10", s=6)
left.set(title="scikit-learn: discriminant analysis")
middle.imshow(np.hstack([images[0].reshape(8, 8), smoothed_digit]), cmap="gray_r")
middle.set(title="SciPy: a digit, and smoothed", xticks=[], yticks=[])
x, y = np.meshgrid(np.linspace(-2, 2, 200), np.linspace(-1, 3, 200))
right.contourf(x, y, np.log(rosenbrock((x, y)) + 0.1), levels=20, cmap="Blues_r")
right.plot(*np.transpose(bfgs_path), "o-", color="tab:orange", markersize=4)
right.set(title="SciPy: BFGS with gradients of plugrad")
figure.savefig("ecosystem.png", dpi=100)
