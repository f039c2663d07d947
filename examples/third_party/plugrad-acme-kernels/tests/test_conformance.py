"""Of plugrad's conformance kit, what is about the kernels of this pack: ``pytest -k Sigmoid``."""

from plugrad.testing.suite import (  # noqa: F401
    test_core,
    test_gradients,
    test_shapes,
    test_special_values,
    test_views,
)
