"""Time the kernels of a backend against plugrad-cpu, on one thread and at realistic sizes.

    python benchmarks/kernels.py wasm
    python benchmarks/kernels.py wasm --turns 30 conv sort    # the cases with these words in their names
    python benchmarks/kernels.py wasm --busy    # on a machine where other programs run

Both backends take turns in one process, so that both meet the same machine. The ratio of the least
times counts. The table is sorted by ratio and ends with the geometric mean.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLUGRAD_WASM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402 - the number of threads is read when NumPy is imported
import sys  # noqa: E402
import time  # noqa: E402
from math import exp, log  # noqa: E402
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias  # noqa: E402

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

import plugrad  # noqa: E402
from plugrad import fft, fused, image  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT, MEAN_LIMIT = 6.0, 1.1
"""What we promise of wasm: the worst ratio, and the geometric mean."""
TURN = 0.002  # seconds that one turn takes at least

Array = NDArray[Any]
Clock: TypeAlias = "Callable[[], float]"
random = np.random.default_rng(0)


class Case(NamedTuple):
    """A function of tensors and the values they get."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Array, ...]


def uniform(*shape: int, low: float = -1, high: float = 1, dtype: str = "float32") -> Array:
    return random.uniform(low, high, shape).astype(dtype)


def integers(*shape: int, high: int = 100, dtype: str = "int32") -> Array:
    return random.integers(0, high, shape).astype(dtype)


def complex_numbers(*shape: int) -> Array:
    return (uniform(*shape) + 1j * uniform(*shape)).astype("complex64")


def elementwise() -> Iterator[Case]:
    """Yield functions of one tensor with a million elements."""
    x, positive = uniform(1_000_000, low=-3, high=3), uniform(1_000_000, low=0.01, high=50)
    names = "abs negative square sign floor round relu relu6 elu selu sigmoid softplus exp expm1"
    names += " sin cos tan sinh cosh tanh asinh atan erf isnan"
    for name in names.split():
        yield Case(name, getattr(plugrad, name), (x,))
    for name in ["sqrt", "rsqrt", "reciprocal", "log", "log1p", "log2", "log10", "acosh"]:
        yield Case(name, getattr(plugrad, name), (positive + 1,))
    for name in ["asin", "acos", "atanh"]:
        yield Case(name, getattr(plugrad, name), (x / 4,))
    yield Case("leaky_relu", plugrad.leaky_relu, (x,))
    yield Case("gelu", plugrad.gelu, (x,))
    yield Case("clip", lambda x: plugrad.clip(x, -1, 1), (x,))
    for name in ["exp", "log", "tanh", "sqrt", "sigmoid"]:
        yield Case(f"{name} float64", getattr(plugrad, name), (positive.astype("float64"),))
    for name in ["exp", "sqrt", "abs"]:
        yield Case(f"{name} complex64", getattr(plugrad, name), (complex_numbers(100_000),))
    for source, target in (
        *(("uint8", "float32"), ("float32", "uint8"), ("float32", "int32"), ("int32", "float32")),
        *(("bool", "float32"), ("float32", "float64"), ("float32", "float16"), ("int64", "int32")),
    ):
        values = integers(1_000_000, high=2 if source == "bool" else 100).astype(source)
        yield Case(f"{source} to {target}", lambda x, t=target: plugrad.astype(x, t), (values,))


def pairs() -> Iterator[Case]:
    """Yield functions of two tensors with a million elements."""
    a, b = uniform(1_000_000, low=0.1, high=4), uniform(1_000_000, low=-2, high=2)
    names = "add multiply divide maximum squared_difference less equal pow atan2 hypot logaddexp"
    for name in f"{names} remainder floor_divide".split():
        yield Case(name, getattr(plugrad, name), (a, b))
    yield Case("pow 2", lambda x: x**2, (b,))
    yield Case("pow 2.5", lambda x: x**2.5, (a,))
    yield Case("where", plugrad.where, (b > 0, a, b))
    yield Case("add a row", plugrad.add, (uniform(1000, 1000), uniform(1000)))
    yield Case("add a column", plugrad.add, (uniform(1000, 1000), uniform(1000, 1)))
    yield Case("add of 8", plugrad.add, (uniform(8), uniform(8)))
    for name in ["add", "multiply", "pow"]:
        yield Case(f"{name} float64", getattr(plugrad, name), (a.astype("d"), b.astype("d")))
    m, n = integers(1_000_000), integers(1_000_000) + 1
    for name in ["add", "multiply", "floor_divide", "less", "bitwise_and"]:
        yield Case(f"{name} int32", getattr(plugrad, name), (m, n))
    for name in ["add", "less"]:
        yield Case(f"{name} int64", getattr(plugrad, name), (m.astype("q"), n.astype("q")))
    for name in ["add", "maximum"]:
        yield Case(f"{name} uint8", getattr(plugrad, name), (m.astype("u1"), n.astype("u1")))
    yield Case("logical_and", plugrad.logical_and, (m > 50, n > 50))
    z, w = complex_numbers(100_000), complex_numbers(100_000)
    for name in ["add", "multiply", "divide"]:
        yield Case(f"{name} complex64", getattr(plugrad, name), (z, w))


def reductions() -> Iterator[Case]:
    """Yield reductions, scans, searches and orders."""
    x = uniform(1000, 1000)
    for name in ["sum", "mean", "max", "prod", "argmax"]:
        function = getattr(plugrad, name)
        yield Case(name, function, (x,))
        yield Case(f"{name} of rows", lambda x, f=function: f(x, axis=1), (x,))
        yield Case(f"{name} of columns", lambda x, f=function: f(x, axis=0), (x,))
    yield Case("any", plugrad.any, (x > 1,))
    yield Case("sum of rows float64", lambda x: plugrad.sum(x, axis=1), (x.astype("d"),))
    yield Case("sum int32", plugrad.sum, (integers(1000, 1000),))
    yield Case("max uint8", plugrad.max, (integers(1000, 1000, dtype="uint8"),))
    yield Case("std of rows", lambda x: plugrad.std(x, axis=1), (x,))
    yield Case("cumulative sum of rows", lambda x: plugrad.cumulative_sum(x, axis=1), (x,))
    yield Case("cumulative sum of columns", lambda x: plugrad.cumulative_sum(x, axis=0), (x,))
    yield Case("sort", lambda x: plugrad.sort(x), (x,))
    yield Case("argsort", lambda x: plugrad.argsort(x), (x,))
    yield Case("argsort of a million", lambda x: plugrad.argsort(x), (x.reshape(-1),))
    yield Case("top 10 of 1000", lambda x: plugrad.top_k(x, 10), (x,))
    yield Case("searchsorted", plugrad.searchsorted, (np.sort(x[0]), x[:100].reshape(-1)))
    yield Case("bincount", lambda x: plugrad.bincount(x, size=100), (integers(1_000_000),))


def movement() -> Iterator[Case]:
    """Yield what moves elements."""
    x, pixels = uniform(1000, 1000), uniform(8, 56, 56, 32)
    yield Case("transpose", lambda x: plugrad.permute_dims(x, (1, 0)), (x,))
    yield Case("transpose uint8", lambda x: plugrad.permute_dims(x, (1, 0)), (x.astype("u1"),))
    yield Case("transpose float64", lambda x: plugrad.permute_dims(x, (1, 0)), (x.astype("d"),))
    yield Case("channels first", lambda x: plugrad.permute_dims(x, (0, 3, 1, 2)), (pixels,))
    heads = uniform(8, 128, 12, 64)
    yield Case("heads first", lambda x: plugrad.permute_dims(x, (0, 2, 1, 3)), (heads,))
    yield Case("concat rows", lambda a, b: plugrad.concat([a, b], axis=0), (x, x))
    yield Case("concat columns", lambda a, b: plugrad.concat([a, b], axis=1), (x, x))
    yield Case("slice", lambda x: plugrad.slice(x, [100, 100], [800, 800]), (x,))
    yield Case("strided slice", lambda x: x[::2, ::3], (x,))
    yield Case("flip", lambda x: plugrad.flip(x, axis=1), (x,))
    yield Case("pad", lambda x: plugrad.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), (pixels,))
    mirror = [[0, 0], [1, 1], [1, 1], [0, 0]]
    yield Case("mirror_pad", lambda x: plugrad.mirror_pad(x, mirror, "reflect"), (pixels,))
    yield Case("tile", lambda x: plugrad.tile(x, [2, 2]), (uniform(500, 500),))
    yield Case("take rows", lambda x, i: plugrad.take(x, i, axis=0), (x, integers(1000, high=1000)))
    yield Case("take elements", plugrad.take, (x.reshape(-1), integers(100_000, high=10**6)))
    yield Case("one_hot", lambda i: plugrad.one_hot(i, 1000), (integers(1000, high=1000),))
    scattered = integers(10_000, high=1000)
    yield Case(
        "segment sum",
        lambda x, i: plugrad.unsorted_segment_sum(x, i, 1000),
        (uniform(10_000, 64), scattered),
    )
    yield Case(
        "scatter",
        lambda i, x: plugrad.scatter_nd(i, x, [1000, 64]),
        (scattered[:, None], uniform(10_000, 64)),
    )
    yield Case("tril", plugrad.tril, (x,))
    yield Case("depth_to_space", lambda x: plugrad.depth_to_space(x, 2), (pixels,))


def products() -> Iterator[Case]:
    """Yield products of matrices, and what belongs to linear algebra and signals."""
    for size in (64, 256, 512):
        yield Case(f"matmul {size}", plugrad.matmul, (uniform(size, size), uniform(size, size)))
    square = uniform(256, 256)
    yield Case(
        "matmul transposed",
        lambda a, b: fused.matmul(a, b, transpose_b=True),
        (square, square),
    )
    yield Case("matmul batched", plugrad.matmul, (uniform(96, 128, 64), uniform(96, 64, 128)))
    yield Case("matmul vector", plugrad.matmul, (uniform(1000, 1000), uniform(1000)))
    yield Case("matmul float64", plugrad.matmul, (square.astype("d"), square.astype("d")))
    yield Case("matmul int32", plugrad.matmul, (integers(128, 128), integers(128, 128)))
    z = complex_numbers(256, 256)
    yield Case("matmul complex64", plugrad.matmul, (z, z))
    yield Case(
        "fused matmul",
        lambda a, b, c: fused.matmul(a, b, bias=c, activation="relu"),
        (uniform(64, 784), uniform(784, 256), uniform(256)),
    )
    yield Case("einsum", lambda a, b: plugrad.einsum("ij,jk->ik", a, b), (square, square))
    yield Case("fft", fft.fft, (complex_numbers(256, 1024),))
    yield Case("rfft", fft.rfft, (uniform(256, 1024),))


def networks() -> Iterator[Case]:
    """Yield convolutions, pools, normalizations and images, forwards and backwards."""
    x, filter = uniform(8, 56, 56, 32), uniform(3, 3, 32, 32)

    def layer(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return lambda *tensors: function(*tensors, **options)

    def backward(function: Callable[..., Any], position: int) -> Callable[..., Any]:
        return plugrad.grad(lambda *tensors: plugrad.sum(function(*tensors)), argnums=position)

    same = layer(plugrad.conv2d, pad="same")
    yield Case("conv2d 3x3", same, (x, filter))
    yield Case("conv2d 1x1", same, (x, uniform(1, 1, 32, 64)))
    yield Case("conv2d strided", layer(plugrad.conv2d, pad="same", strides=2), (x, filter))
    yield Case("conv2d of 3 channels", same, (uniform(1, 224, 224, 3), uniform(3, 3, 3, 32)))
    thin = uniform(3, 3, 32, 1)
    depthwise = layer(plugrad.depthwise_conv2d, pad="same")
    yield Case("depthwise", depthwise, (x, thin))
    yield Case(
        "conv3d",
        layer(plugrad.conv3d, pad="same"),
        (uniform(1, 16, 28, 28, 16), uniform(3, 3, 3, 16, 16)),
    )
    yield Case("dilation2d", layer(plugrad.dilation2d, pad="same"), (x, uniform(3, 3, 32)))
    for name in ("max_pool", "avg_pool"):
        pool = layer(getattr(plugrad, name), filter_size=2)
        yield Case(name, pool, (x,))
        yield Case(f"{name} backward", backward(pool, 0), (x,))
    yield Case("max_pool 3x3", layer(plugrad.max_pool, filter_size=3, strides=2), (x,))
    yield Case("conv2d input gradient", backward(same, 0), (x, filter))
    yield Case("conv2d filter gradient", backward(same, 1), (x, filter))
    yield Case("depthwise input gradient", backward(depthwise, 0), (x, thin))
    yield Case("depthwise filter gradient", backward(depthwise, 1), (x, thin))
    table = uniform(1000, 1000)
    yield Case("softmax", plugrad.softmax, (table,))
    yield Case("softmax of 10", plugrad.softmax, (uniform(100_000, 10),))
    yield Case("log_softmax", plugrad.log_softmax, (table,))
    statistics = uniform(32), uniform(32, low=0.5)
    yield Case("batch_norm", plugrad.batch_norm, (x, *statistics, *statistics))
    yield Case("local_response_normalization", plugrad.local_response_normalization, (x,))
    yield Case("resize_bilinear", lambda x: image.resize_bilinear(x, (112, 112)), (x,))
    yield Case("resize_nearest", lambda x: image.resize_nearest_neighbor(x, (112, 112)), (x,))
    yield Case("flip_left_right", image.flip_left_right, (x,))
    yield Case("rotate", lambda x: image.rotate_with_offset(x, 0.3), (x,))
    boxes = np.sort(uniform(8, 4, low=0), axis=1)
    yield Case(
        "crop_and_resize",
        lambda x, boxes, i: image.crop_and_resize(x, boxes, i, (56, 56)),
        (x, boxes, np.arange(8, dtype="int32")),
    )


def cases() -> list[Case]:
    """Return all cases."""
    families = (elementwise, pairs, reductions, movement, products, networks)
    return [case for family in families for case in family()]


def first_tensor(result: Any) -> plugrad.Tensor:
    return result if isinstance(result, plugrad.Tensor) else first_tensor(result[0])


def seconds(case: Case, inputs: list[plugrad.Tensor], repeats: int, clock: Clock) -> float:
    """Return the time of one call; a read-back makes devices finish that work on their own."""
    start = clock()
    for _ in range(repeats - 1):
        case.function(*inputs)
    first_tensor(case.function(*inputs)).reshape(-1)[:1].numpy()
    return (clock() - start) / repeats


def compare(case: Case, backends: tuple[str, str], turns: int, clock: Clock) -> list[float]:
    """Return the least time of a case on each backend, after comparing their results."""
    inputs: list[list[plugrad.Tensor]] = []
    repeats: list[int] = []
    results: list[Array] = []
    for name in backends:
        with plugrad.use(name):
            inputs.append([plugrad.asarray(value) for value in case.inputs])
            results.append(first_tensor(case.function(*inputs[-1])).numpy())
            once = min(seconds(case, inputs[-1], 1, clock) for _ in range(2))
            repeats.append(max(1, round(TURN / once)))
    if results[0].dtype.kind in "fc":
        scale = float(np.abs(results[1]).max())
        np.testing.assert_allclose(*results, rtol=2e-3, atol=2e-5 * scale, err_msg=case.name)
    best = [float("inf")] * 2
    for _ in range(turns):
        for i, name in enumerate(backends):
            with plugrad.use(name):
                best[i] = min(best[i], seconds(case, inputs[i], repeats[i], clock))
    return best


def main() -> int:
    """Print a table; return 1 if a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("backend", help="such as wasm or webgpu")
    parser.add_argument("words", nargs="*", help="run the cases whose names contain one of them")
    parser.add_argument("--turns", type=int, default=9, help="of each backend per case")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="count processor time, from which other programs take little; not for devices, which "
        "work elsewhere",
    )
    options = parser.parse_intermixed_args()
    clock = time.process_time if options.busy else time.perf_counter
    rows: list[tuple[float, float, float, str]] = []
    for case in cases():
        if not options.words or any(word in case.name for word in options.words):
            mine, theirs = compare(case, (options.backend, "cpu"), options.turns, clock)
            rows.append((mine / theirs, mine * 1e3, theirs * 1e3, case.name))
    print(f"{'case':30} {options.backend + ' ms':>10} {'cpu ms':>10} {'ratio':>7}")
    for ratio, mine, theirs, name in sorted(rows):
        print(f"{name:30} {mine:10.4f} {theirs:10.4f} {ratio:7.2f}")
    mean = exp(sum(log(row[0]) for row in rows) / len(rows))
    print(f"{len(rows)} cases, geometric mean {mean:.2f} (limit {MEAN_LIMIT}, worst {LIMIT})")
    return int(mean > MEAN_LIMIT or max(rows)[0] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
