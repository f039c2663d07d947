"""TensorFlow.js itself, where Node and @tensorflow/tfjs are installed."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.tfjs_models.making import from_json, jsonable

HERE = Path(__file__).parent


@functools.cache
def package():
    """Return the folder of @tensorflow/tfjs, or None."""
    places = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
    places += [parent / "node_modules" for parent in HERE.parents]
    found = [place / "@tensorflow" / "tfjs" for place in places]
    return next((place for place in found if (place / "dist" / "tf.node.js").exists()), None)


needs_tfjs = pytest.mark.skipif(
    shutil.which("node") is None or package() is None,
    reason="@tensorflow/tfjs is not installed: npm install @tensorflow/tfjs, and NODE_PATH=…/node_modules",
)


def run_jobs(jobs, folder):
    """Return the outputs of models that TensorFlow.js runs, or the text of an error."""
    asked, answered = Path(folder, "jobs.json"), Path(folder, "results.json")
    asked.write_text(
        json.dumps(
            [{**job, "inputs": {k: jsonable(v) for k, v in job["inputs"].items()}} for job in jobs]
        )
    )
    environment = {**os.environ, "TFJS": str(package())}
    subprocess.run(
        ["node", HERE / "run_models.js", asked, answered],
        check=True,
        capture_output=True,
        timeout=300,
        env=environment,
    )
    results = json.loads(answered.read_text())
    return [r if isinstance(r, str) else [from_json(part) for part in r] for r in results]
