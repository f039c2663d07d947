"""Record what TensorFlow.js computes: ``NODE_PATH=…/node_modules python -m core.tfjs_models.record`` in tests/."""

import json
import tempfile
from pathlib import Path

from core.tfjs_models.making import GraphModelWriter, array_to_json
from core.tfjs_models.node import SCRIPT_FOLDER, run_models_in_node
from core.tfjs_models.operators import OPERATOR_CASES, add_case


def main():
    jobs = []
    root = Path(tempfile.mkdtemp())
    for number, case in enumerate(OPERATOR_CASES):
        making = GraphModelWriter()
        outputs, fed = add_case(case, making)
        folder = making.write(str(root / str(number)), *outputs)
        jobs.append({"folder": folder, "kind": "graph", "inputs": fed, "outputs": outputs})
    results = run_models_in_node(jobs, root)
    for case, result in zip(OPERATOR_CASES, results, strict=True):
        if isinstance(result, str):
            print(case, result[:300])
    found = [None if isinstance(r, str) else [array_to_json(part) for part in r] for r in results]
    (SCRIPT_FOLDER / "records" / "operators.json").write_text(
        json.dumps(found, separators=(",", ":"))
    )


if __name__ == "__main__":
    main()
