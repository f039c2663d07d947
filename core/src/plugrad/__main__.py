"""``python -m plugrad`` is the command ``plugrad``."""

import sys

from plugrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
