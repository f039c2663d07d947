"""plugrad's conformance kit, run on this backend."""

from plugrad.testing.suite import *  # noqa: F403
