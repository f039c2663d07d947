"""The examples of the gallery at a small size: every backend computes the same, and the pictures are drawn."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy

import plugrad
from consistency import notebooks

FOLDER = Path(__file__).parents[2] / "examples"
PICTURES_FOLDER = Path(__file__).parents[2] / "docs" / "examples"
SMALL_CONSTANTS = {
    "ecosystem": {"DIGIT_COUNT": 200},
    "autoencoder": {"EPOCHS": 3, "BATCH_SIZE": 512},
    "fine_tuning": {"EPOCH_COUNT": 1, "STEP_COUNT": 3},
    "images": {"IMAGE_SIZE": 48},
    "pendulum": {"MEASUREMENT_COUNT": 9, "TRAINING_STEPS": 4},
    "reaction_diffusion": {"GRID_SIZE": 24, "STEP_COUNT": 8},
    "scaling": {},
}

PRETRAINED_MODELS = {"bert", "gpt2", "vision_transformer"}
"""Models of others, read from their files: they are as long as the models have layers, and draw nothing."""


@pytest.fixture(autouse=True)
def work_in_empty_folder(monkeypatch, tmp_path):
    """Draw into files of an empty folder."""
    # here, because it takes longer than to collect all tests of a family
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    yield
    pyplot.close("all")


class ConstantReplacer(ast.NodeTransformer):
    """Gives the constants of a program other values."""

    def __init__(self, values):
        self.values = values

    def visit_Assign(self, node):
        (target,) = node.targets
        pairs = (
            zip(target.elts, node.value.elts, strict=True)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            else [(target, node.value)]
        )
        for name, value in pairs:
            if getattr(name, "id", "") in self.values:
                value.value = self.values[name.id]
        return node


def shrink_example(code, name):
    return ast.fix_missing_locations(ConstantReplacer(SMALL_CONSTANTS[name]).visit(ast.parse(code)))


def run_example(name):
    """Run an example that is made small, and return its names."""
    path = FOLDER / f"{name}.py"
    known = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(shrink_example(path.read_text("utf-8"), name), str(path), "exec"), known)
    return known


@cache
def run_on_cpu(name):
    with plugrad.use("cpu"):
        return run_example(name)


@pytest.mark.parametrize("name", ["autoencoder", "fine_tuning", "pendulum"])
def test_trained_examples_match_the_cpu(name, backend):
    losses = run_example(name)["losses"]
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(losses, run_on_cpu(name)["losses"], rtol=1e-3)


def test_reaction_and_diffusion_match_numpy(backend):
    u, v = (run_example("reaction_diffusion")[name].numpy() for name in "uv")
    known = run_on_cpu("reaction_diffusion")
    expected_u, expected_v = 1 - known["initial_v"].astype(float), known["initial_v"].astype(float)
    around = np.array([[0.05, 0.2, 0.05], [0.2, -1, 0.2], [0.05, 0.2, 0.05]])
    for _ in range(known["STEP_COUNT"]):
        spread_u, spread_v = (
            scipy.ndimage.convolve(x, around, mode="wrap") for x in (expected_u, expected_v)
        )
        reaction = expected_u * expected_v**2
        expected_u = expected_u + spread_u - reaction + known["FEED_RATE"] * (1 - expected_u)
        expected_v += (
            spread_v / 2 + reaction - (known["FEED_RATE"] + known["KILL_RATE"]) * expected_v
        )
    np.testing.assert_allclose(u, expected_u, atol=1e-5)
    np.testing.assert_allclose(v, expected_v, atol=1e-5)


def test_filters_and_warps_match_scipy_and_the_cpu(backend):
    known, expected = run_example("images"), run_on_cpu("images")
    grey = known["grayscale"].numpy()[..., 0].astype(float)
    edges = np.hypot(*(scipy.ndimage.sobel(grey, axis) for axis in (0, 1)))
    inside = slice(1, -1), slice(1, -1)
    np.testing.assert_allclose(known["edges"][..., 0].numpy()[inside], edges[inside], atol=1e-4)
    for title, image in known["images_by_title"].items():
        away = np.abs(image.numpy() - expected["images_by_title"][title].numpy())
        # A pixel between two others may come from either.
        assert np.mean(away > 1e-3) < (0.01 if title in ("swirled", "from the side") else 1e-9)


@pytest.mark.parametrize("name", [name for name in SMALL_CONSTANTS if name != "ecosystem"])
def test_pictures_are_not_blank(name):
    run_on_cpu.cache_clear()
    run_on_cpu(name)
    (picture,) = Path().glob(f"{name}.*")
    from matplotlib import image

    pixels = image.imread(picture)
    assert np.std(pixels[..., :3] / pixels.max()) > 0.05


@pytest.fixture(scope="module")
def ecosystem_output(tmp_path_factory):
    """The output of the example of SciPy and scikit-learn on each backend, in a process that has not imported SciPy."""
    program = (
        "import json, sys, plugrad\n"
        "from contextlib import redirect_stdout\n"
        "from io import StringIO\n"
        "path, *backends = sys.argv[1:]\n"
        "code, printed = compile(sys.stdin.read(), path, 'exec'), {}\n"
        "for backend in backends:\n"
        "    with plugrad.use(backend), redirect_stdout(StringIO()) as text:\n"
        "        exec(code, {'__file__': path})\n"
        "    printed[backend] = text.getvalue()\n"
        "print(json.dumps(printed))\n"
    )
    path = FOLDER / "ecosystem.py"
    names = [
        plugin.name for plugin in plugrad.backends() if plugin.status in ("active", "available")
    ]
    done = subprocess.run(
        [sys.executable, "-c", program, path, *names],
        input=ast.unparse(shrink_example(path.read_text("utf-8"), "ecosystem")),
        env=os.environ | {"MPLBACKEND": "agg", "PLUGRAD_UNSUPPORTED_DTYPE": "silent"},
        cwd=tmp_path_factory.mktemp("ecosystem"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_scipy_and_scikit_learn_compute_on_the_backend(ecosystem_output, backend):
    assert ecosystem_output[backend].splitlines() == [
        f"scikit-learn gives a Tensor on {backend}:0",
        "the gradient of SciPy's logsumexp sums to 1.0000",
        "BFGS ends at [1. 1.]",
    ]


def test_notebooks_run_in_jupyter(tmp_path):
    """All in one kernel, because starting one takes long."""
    import nbformat  # here, as Matplotlib above
    from jupyter_client.manager import start_new_kernel
    from nbclient import NotebookClient

    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    manager, client = start_new_kernel(cwd=str(tmp_path), env=environment)
    try:
        for name in notebooks.EXAMPLE_NAMES:
            notebook = nbformat.reads(notebooks.make_notebook(name), 4)
            nbformat.validate(notebook)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.source = ast.unparse(shrink_example(cell.source, name))
            runner = NotebookClient(notebook, km=manager)
            runner.kc = client
            runner.execute(reset_kc=False)
            kinds = [o.data.keys() for o in notebook.cells[-1].outputs if "data" in o]
            assert any("image/png" in kind for kind in kinds)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_examples_are_short_and_have_a_picture():
    for path in FOLDER.glob("*.py"):
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
        assert len(lines) <= (160 if path.stem in PRETRAINED_MODELS else 80), path.name
        if path.stem in PRETRAINED_MODELS:
            continue
        assert list(PICTURES_FOLDER.glob(f"{path.stem}.[jps]*g")), path.name
