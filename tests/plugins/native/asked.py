"""Find the C functions that the pack loads: a program imports all of it for a variant, and prints their names."""

import subprocess
import sys

SYMBOLS_PROGRAM = """
import importlib, pkgutil, sys
import plugrad_native
from plugrad_native import variants

real = variants.load_variant(sys.argv[1])
asked = set()

class Spy:
    VECTOR_BYTES = real.VECTOR_BYTES

    def kernel(self, name):
        asked.add(name)
        try:
            return real.kernel(name)
        except AttributeError:  # the extension was built with another list
            return print

    def make_small_concatenation(self, *arguments):
        return print

    def make_small_result_function(self, *arguments):
        return print

variants.current_variant = Spy
for module in pkgutil.walk_packages(plugrad_native.__path__, "plugrad_native."):
    if not module.name.rpartition(".")[2].startswith("_"):
        importlib.import_module(module.name)
print(*asked)
"""


def requested_symbols(variants: list[str]) -> list[str]:
    """Return the sorted names of the C functions that any of some variants loads."""
    found: set[str] = set()
    for variant in variants:
        command = [sys.executable, "-c", SYMBOLS_PROGRAM, variant]
        found.update(subprocess.run(command, stdout=-1, text=True, check=True).stdout.split())
    return sorted(found)
