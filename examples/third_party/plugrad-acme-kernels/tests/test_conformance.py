"""The tests of plugrad's conformance kit that concern the kernel of this pack: ``pytest -k Sigmoid``."""

from plugrad.testing.suite import (  # noqa: F401
    test_core,
    test_gradients,
    test_shapes,
    test_special_values,
    test_views,
)
