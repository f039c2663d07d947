"""Calls of further libraries with tensors, one for each library: what it gives for tensors it must give for arrays.

Each call takes a function that makes what it passes on: tensors, or NumPy's arrays. It imports its library itself,
so that those which are not installed can be left out.
"""

import io
import tempfile
from pathlib import Path

import numpy as np

MATRIX = np.array([[3.0, 1.0, 2.0], [0.5, 4.0, 1.5], [2.5, 0.25, 6.0], [1.0, 2.0, 8.0]])
VECTOR = np.array([1.0, 2.0, 4.0, 8.0])
COUNTS = np.array([0, 1, 1, 3])
PIXELS = (np.arange(48) * 5).reshape(4, 4, 3).astype("uint8")


def array_api_compat(t):
    from array_api_compat import array_namespace

    x = t(MATRIX)
    return array_namespace(x).sum(x, axis=0)


def array_api_extra(t):
    import array_api_extra as xpx

    return xpx.atleast_nd(t(VECTOR), ndim=2), xpx.kron(t(MATRIX), t(MATRIX))


def bokeh(t):
    from bokeh.embed import json_item
    from bokeh.plotting import figure

    plot = figure()
    plot.line(t(VECTOR), t(VECTOR))
    json_item(plot)
    return [np.asarray(plot.renderers[0].data_source.data[name]) for name in ("x", "y")]


def cloudpickle(t):
    from cloudpickle import dumps, loads

    x = t(MATRIX)
    return loads(dumps(lambda: x))()


def dask(t):
    from dask.array import from_array

    return from_array(t(MATRIX), chunks=2).sum(axis=0).compute()


def dill(t):
    from dill import dumps, loads

    return loads(dumps({"x": t(MATRIX)}))["x"]


def dm_tree(t):
    import tree

    return tree.flatten(tree.map_structure(lambda x: x + 1, {"a": t(VECTOR), "b": [t(MATRIX)]}))


def duckdb(t):
    import duckdb
    import pyarrow

    numbers = pyarrow.table({"x": t(VECTOR), "n": t(COUNTS)})  # noqa: F841 - the query names it
    return duckdb.sql("select sum(x * n) from numbers").fetchall()[0]


def einops(t):
    from einops import rearrange, reduce

    return rearrange(t(MATRIX), "a b -> b a"), reduce(t(MATRIX), "(a two) b -> a b", "max", two=2)


def faiss(t):
    import faiss

    x = t(MATRIX.astype("float32"))
    index = faiss.IndexFlatL2(3)
    index.add(x)
    return index.search(x, 2)


def h5py(t):
    import h5py

    with tempfile.TemporaryDirectory() as folder, h5py.File(Path(folder) / "a.h5", "w") as file:
        file["x"] = t(MATRIX)
        file.create_dataset("n", data=t(COUNTS))
        return file["x"][...], file["n"][...]


def imageio(t):
    from imageio.v3 import imread, imwrite

    return imread(imwrite("<bytes>", t(PIXELS), extension=".png"))


def jax(t):
    import jax.numpy as jnp

    return jnp.asarray(t(MATRIX)), jnp.array(t(COUNTS)), jnp.from_dlpack(t(VECTOR))


def joblib(t):
    from joblib import dump, load

    file = io.BytesIO()
    dump({"x": t(MATRIX)}, file)
    file.seek(0)
    return load(file)["x"]


def matplotlib(t):
    from matplotlib.figure import Figure

    axes = Figure().subplots(2, 2).ravel()
    (line,) = axes[0].plot(t(VECTOR), t(VECTOR))
    image = axes[1].imshow(t(MATRIX))
    heights, edges, _ = axes[2].hist(t(VECTOR), bins=3)
    points = axes[3].scatter(t(VECTOR), t(VECTOR), c=t(VECTOR))
    return line.get_ydata(), image.get_array(), heights, edges, points.get_offsets()


def ml_dtypes(t):
    from ml_dtypes import bfloat16

    return np.asarray(t(MATRIX)).astype(bfloat16).astype(float)


def numba(t):
    from numba import njit

    return njit(lambda x: x.sum())(np.asarray(t(VECTOR)))


def numexpr(t):
    from numexpr import evaluate

    return evaluate("2 * x + 1", {"x": t(MATRIX)})


def opt_einsum(t):
    from opt_einsum import contract

    return contract("ab,cb,c->a", t(MATRIX), t(MATRIX), t(VECTOR))


def optree(t):
    import optree

    leaves, structure = optree.tree_flatten({"a": t(VECTOR), "b": [t(MATRIX), None]})
    doubled = optree.tree_map(lambda x: 2 * x, optree.tree_unflatten(structure, leaves))
    return [doubled["a"], *doubled["b"]]


def pandas(t):
    import pandas

    frame = pandas.DataFrame({"x": t(VECTOR), "n": t(COUNTS)})
    return frame.groupby("n").x.sum(), pandas.Series(t(VECTOR)).mean(), pandas.DataFrame(t(MATRIX))


def pillow(t):
    from PIL import Image

    return np.asarray(Image.fromarray(t(PIXELS)).rotate(90))


def plotly(t):
    from plotly.graph_objects import Figure, Heatmap, Scatter

    figure = Figure([Scatter(x=t(VECTOR), y=t(VECTOR)), Heatmap(z=t(MATRIX))])
    figure.to_json()
    return figure.data[0].y, figure.data[1].z


def polars(t):
    import polars

    frame = polars.DataFrame({"x": t(VECTOR), "n": t(COUNTS), "rows": t(MATRIX)})
    sums = frame.group_by("n").agg(polars.col("x").sum()).sort("n")
    return frame["rows"].to_numpy(), sums["x"].to_numpy(), polars.Series("x", t(VECTOR)).to_numpy()


def pyarrow(t):
    import pyarrow

    bools, texts = pyarrow.array(t(VECTOR > 1)), pyarrow.array(t(np.array(["a", "", "é"], "T")))
    assert texts.to_pylist() == ["a", "", "é"]
    return np.array(bools.to_pylist()), pyarrow.array(t(COUNTS)).to_numpy()


def safetensors(t):
    from safetensors.numpy import load, save

    return load(save({"x": np.asarray(t(MATRIX))}))["x"]


def seaborn(t):
    import seaborn
    from matplotlib.figure import Figure

    axes = seaborn.lineplot(x=t(VECTOR), y=t(VECTOR), ax=Figure().subplots())
    heat = seaborn.heatmap(t(MATRIX), ax=Figure().subplots())
    return axes.lines[0].get_ydata(), heat.collections[0].get_array()


def skimage(t):
    from skimage.filters import gaussian
    from skimage.measure import label
    from skimage.transform import resize

    x = t(MATRIX)
    return gaussian(x), resize(x, (3, 3)), label(x > 2)


def statsmodels(t):
    from statsmodels.api import OLS, add_constant

    return OLS(t(VECTOR), add_constant(t(COUNTS))).fit().params


def sympy(t):
    from sympy import lambdify, sin, symbols

    a = symbols("a")
    return lambdify(a, sin(a) ** 2 + a)(t(MATRIX))


def tabulate(t):
    from tabulate import tabulate as format_table

    return [float(word) for word in format_table(t(MATRIX)).split() if word[0] != "-"]


def torch(t):
    import torch

    return torch.as_tensor(t(MATRIX)), torch.tensor(t(COUNTS)), torch.from_dlpack(t(VECTOR))


def tqdm(t):
    from tqdm import tqdm as progress

    return [row.sum() for row in progress(t(MATRIX), disable=True)]


def xarray(t):
    from xarray import DataArray

    x = DataArray(t(MATRIX), dims=("a", "b"))
    parts = [x.mean("a"), x.sum(), x.max("b"), (x * 2).isel(b=1), x.transpose("b", "a")]
    return [part.data for part in parts]


CALLS = {
    call.__name__: call
    for call in (
        *(
            array_api_compat,
            array_api_extra,
            bokeh,
            cloudpickle,
            dask,
            dill,
            dm_tree,
            duckdb,
            einops,
        ),
        *(faiss, h5py, imageio, jax, joblib, matplotlib, ml_dtypes, numba, numexpr, opt_einsum),
        *(optree, pandas, pillow, plotly, polars, pyarrow, safetensors, seaborn, skimage),
        *(statsmodels, sympy, tabulate, torch, tqdm, xarray),
    )
}
"""The consumers by name."""


# --- libraries that know their arrays by class or by NumPy's letters: they take x.numpy() -------------------------


def lightgbm(t):
    import lightgbm

    return lightgbm.Dataset(t(MATRIX), label=t(VECTOR)).construct().num_data()


def networkx(t):
    from networkx import from_numpy_array

    return from_numpy_array(t(np.eye(3))).number_of_edges()


def onnx(t):
    from onnx.numpy_helper import from_array, to_array

    return to_array(from_array(t(MATRIX)))


def tensorboardX(t):  # noqa: N802 - that is its name
    from tensorboardX import SummaryWriter

    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        writer.add_histogram("x", t(MATRIX), 1)
    return ()


def xgboost(t):
    import xgboost

    return xgboost.DMatrix(t(MATRIX), label=t(VECTOR)).num_row()


def zarr(t):
    import zarr

    return zarr.array(t(MATRIX))[:]


CALLS_WITHOUT_ARRAY_PROTOCOL = {
    c.__name__: c for c in (lightgbm, networkx, onnx, tensorboardX, xgboost, zarr)
}
"""Libraries without a protocol for arrays of others; the guide lists them."""
