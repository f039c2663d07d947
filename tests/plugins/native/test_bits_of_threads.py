"""The same bits for any number of threads, those of BLAS included, which a process has from its first product on."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

import plugrad

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)

THREAD_COUNTS = (1, 2, 7)
FACTOR_SHAPES = {
    "small": ((2, 64, 65), (2, 65, 66)),
    "square": ((300, 300), (300, 300)),
    "deep": ((90, 3000), (3000, 70)),
    "few rows": ((3, 3000), (3000, 500)),
    "few short rows": ((8, 300), (300, 128)),
    "a batch of few rows": ((2, 2, 1000), (1, 1000, 100)),
    "few columns": ((1000, 1000), (1000, 8)),
    "one row": ((1, 1000), (1000, 1000)),
    "one column": ((1000, 1000), (1000, 1)),
    "one number": ((1, 30_000), (30_000, 1)),
    "a batch": ((3, 200, 200), (3, 200, 200)),
    "one matrix": ((3, 200, 200), (200, 90)),
}
REDUCED_SHAPES = ((3000, 1000), (1_000_000, 3), (20, 300, 500), (400_000, 1))


def random_array(seed, shape, dtype):
    draw = np.random.default_rng(seed).normal
    x = draw(size=shape) + (1j * draw(size=shape) if dtype.startswith("complex") else 0)
    return plugrad.asarray(x.astype(dtype))


def random_products(dtype):
    """Return matrix products by name, with factors in both orders of memory."""
    found = {}
    for name, shapes in FACTOR_SHAPES.items():
        a, b = (random_array(i, shape, dtype) for i, shape in enumerate(shapes))
        found[name] = a @ b
        turned = (plugrad.permute_dims(x, (*range(x.ndim - 2), -1, -2)) for x in (a, b))
        a, b = (plugrad.asarray(x.numpy().copy()) for x in turned)
        found[f"{name}, turned"] = plugrad.matmul(a, b, transpose_a=True, transpose_b=True)
    a, b, c = (random_array(i, (150, 160), dtype) for i in range(3))
    found["einsum"] = plugrad.einsum("ij,kj,kl->il", a, b, c)
    found["a trace"] = plugrad.einsum("ij,ij->", a, b)
    found["program"] = plugrad.jit(lambda x: plugrad.exp(x @ x * 1e-3) @ x)(
        random_array(1, (200, 200), dtype)
    )
    return found


def random_sums(dtype):
    """Return sums over the first axis, and of all elements."""
    found = {}
    for shape in REDUCED_SHAPES:
        x = random_array(0, shape, dtype)
        for function in (plugrad.sum, plugrad.mean, plugrad.prod):
            found[f"{function.__name__} {shape}"] = function(x, axis=0)
        found[f"sum of all {shape}"] = plugrad.sum(x)
    return found


def random_traced_sums(dtype):
    """Return sums of arrays whose axes lie in another order in memory, from programs."""
    x = random_array(0, (700, 600), dtype)
    functions = {
        "all": lambda x: plugrad.sum(x.T),
        "rows": lambda x: plugrad.mean(x.T, axis=1),
        "columns": lambda x: plugrad.sum(x.T, axis=0),
        "exponentials": lambda x: plugrad.sum(plugrad.exp(x.T) * 2, axis=1),
        "squares": lambda x: plugrad.sum(plugrad.expand_dims(x.T, 0) ** 2, axis=(0, 2)),
    }
    return {name: plugrad.jit(function)(x) for name, function in functions.items()}


def random_layer_results(dtype):
    """Return attention, a convolution, and their gradients."""
    x, q = random_array(0, (2, 30, 30, 24), dtype), random_array(1, (2, 300, 64), dtype)
    weights = random_array(2, (3, 3, 24, 40), dtype)

    def convolve(x, weights):
        return plugrad.sum(plugrad.conv2d(x, weights, padding="same") ** 2)

    def attend(q):
        return plugrad.sum(plugrad.attention(q, q, q) ** 2)

    found = dict(enumerate(plugrad.grad(convolve, (0, 1))(x, weights)))
    return found | {
        "attention": plugrad.attention(q, q, q),
        "its gradient": plugrad.grad(attend)(q),
    }


CASES = {
    (made.__name__, dtype): made
    for made, dtypes in (
        (random_products, ("float16", "float32", "float64", "complex64", "complex128")),
        (random_sums, ("float32", "float64")),
        (random_traced_sums, ("float32", "float64")),
        (random_layer_results, ("float32", "float64")),
    )
    for dtype in dtypes
}


def print_digests():
    """Print a line for each result of all cases."""
    plugrad.use("cpu")
    for (name, dtype), made in CASES.items():
        for key, result in made(dtype).items():
            state = hashlib.sha1(np.ascontiguousarray(result.numpy()), usedforsecurity=False)
            print(name, dtype, key, state.hexdigest(), sep="\t")


@pytest.fixture(scope="module")
def digests():
    """The lines of processes with each number of threads."""
    processes = []
    for count in map(str, THREAD_COUNTS):
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLUGRAD_CPU_THREADS")
        processes.append(
            subprocess.Popen(
                [sys.executable, __file__],
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | dict.fromkeys(variables, count),
            )
        )
    found = [process.communicate(timeout=600)[0].splitlines() for process in processes]
    assert not any(process.returncode for process in processes)
    return found


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_no_number_of_threads_changes_bits(name, dtype, digests):
    own = [[line for line in lines if line.startswith(f"{name}\t{dtype}\t")] for lines in digests]
    assert own[0]
    for other in own[1:]:
        assert other == own[0]


if __name__ == "__main__":
    print_digests()
