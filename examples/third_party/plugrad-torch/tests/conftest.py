"""Load plugrad's conformance kit, which provides the options and the backend under test."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; run pip install torch")
pytest_plugins = ["plugrad.testing.plugin"]
