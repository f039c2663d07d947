"""The batching rule, for `plugrad.vmap`. GeGLU has none: its body of ops runs, whose kernels have theirs."""

from plugrad.extend import leading, register_batching
from plugrad_acme_ops import contracts

register_batching(contracts.swiglu, leading)
