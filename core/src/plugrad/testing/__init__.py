"""Checks for those who write kernels, gradients and backends; any test runner can call them."""

from plugrad.testing.conformance import run_conformance
from plugrad.testing.finite_differences import check_gradient

__all__ = ["check_gradient", "run_conformance"]
