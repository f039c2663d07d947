"""TensorFlow.js itself, where Node and @tensorflow/tfjs are installed."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.tfjs_models.making import array_from_json, array_to_json

SCRIPT_FOLDER = Path(__file__).parent


@functools.cache
def tfjs_package_folder():
    """Return the folder of @tensorflow/tfjs, or None."""
    places = [Path(place) for place in os.environ.get("NODE_PATH", "").split(os.pathsep) if place]
    places += [parent / "node_modules" for parent in SCRIPT_FOLDER.parents]
    found = [place / "@tensorflow" / "tfjs" for place in places]
    return next((place for place in found if (place / "dist" / "tf.node.js").exists()), None)


needs_tfjs = pytest.mark.skipif(
    shutil.which("node") is None or tfjs_package_folder() is None,
    reason="@tensorflow/tfjs is not installed: npm install @tensorflow/tfjs, and NODE_PATH=…/node_modules",
)


def run_models_in_node(jobs, folder):
    """Return the outputs of models that TensorFlow.js runs in Node, or the text of its error."""
    asked, answered = Path(folder, "jobs.json"), Path(folder, "results.json")
    asked.write_text(
        json.dumps(
            [
                {**job, "inputs": {k: array_to_json(v) for k, v in job["inputs"].items()}}
                for job in jobs
            ]
        )
    )
    environment = {**os.environ, "TFJS": str(tfjs_package_folder())}
    subprocess.run(
        ["node", SCRIPT_FOLDER / "run_models.js", asked, answered],
        check=True,
        capture_output=True,
        timeout=300,
        env=environment,
    )
    results = json.loads(answered.read_text())
    return [r if isinstance(r, str) else [array_from_json(part) for part in r] for r in results]
