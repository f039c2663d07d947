"""The entry point of the command ``plugrad``, which starts in a third of the time that ``import plugrad`` takes.

The import of any module of plugrad runs ``plugrad/__init__.py``, which imports NumPy and every op. The
command needs neither to list plugins, so the package is made here without running that file;
`plugrad.cli.package_import` runs it when a command needs tensors after all.
"""

import sys
from importlib.util import find_spec, module_from_spec


def main() -> int:
    """Run the command and return its exit status."""
    specification = find_spec("plugrad")
    assert specification is not None
    sys.modules["plugrad"] = module_from_spec(specification)
    from plugrad.cli import main

    return main()
