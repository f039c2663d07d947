"""The table of kernels, which is known without importing the implementations."""

import subprocess
import sys

from plugrad.registry.kernels import check_parameters
from plugrad_wasm.declare import table
from plugrad_wasm.deferred import LazyImplementation
from plugrad_wasm.families import kernel_table

IMPORTED_FAMILIES_PROGRAM = """
import sys
import plugrad

with plugrad.use("wasm"):
    x = plugrad.asarray([1.0])
    plugrad.add(x, x)
loaded = {name.rpartition(".")[2] for name in sys.modules if name.startswith("plugrad_wasm.kernels.")}
assert "binary" in loaded, loaded
assert not loaded & {"convolution", "image", "linalg", "normalization", "signal", "unary"}, loaded
"""


def test_every_declared_kernel_is_implemented():
    for config in kernel_table():
        assert isinstance(config.kernel_func, LazyImplementation)
        function = config.kernel_func.function
        check_parameters(config._replace(kernel_func=function))
        assert table.configs[config.kernel_name].on_host == config.on_host, config.kernel_name
    assert {config.kernel_name for config in kernel_table()} == table.configs.keys()


def test_an_addition_imports_few_families():
    subprocess.run([sys.executable, "-c", IMPORTED_FAMILIES_PROGRAM], check=True)
