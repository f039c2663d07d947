"""The batching rule, for `plugrad.vmap`. GeGLU has none: its body of ops runs, whose kernels have theirs."""

from plugrad.extend import register_batching, run_with_leading_axis
from plugrad_acme_ops import contracts

register_batching(contracts.swiglu, run_with_leading_axis)
