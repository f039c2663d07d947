"""Record what TensorFlow.js computes: ``NODE_PATH=…/node_modules python -m core.tfjs_models.record`` in tests/."""

import json
import tempfile
from pathlib import Path

from core.tfjs_models.making import Making, jsonable
from core.tfjs_models.node import HERE, run_jobs
from core.tfjs_models.operators import CASES, model_of


def main():
    jobs = []
    root = Path(tempfile.mkdtemp())
    for number, case in enumerate(CASES):
        making = Making()
        outputs, fed = model_of(case, making)
        folder = making.write(str(root / str(number)), *outputs)
        jobs.append({"folder": folder, "kind": "graph", "inputs": fed, "outputs": outputs})
    results = run_jobs(jobs, root)
    for case, result in zip(CASES, results, strict=True):
        if isinstance(result, str):
            print(case, result[:300])
    found = [None if isinstance(r, str) else [jsonable(part) for part in r] for r in results]
    (HERE / "records" / "operators.json").write_text(json.dumps(found, separators=(",", ":")))


if __name__ == "__main__":
    main()
