"""What every backend must do: plugrad's own suite, run on this one."""

from plugrad.testing.suite import *  # noqa: F403
