"""Threads in C that share the work of kernels; see extension/sharing.h."""

from __future__ import annotations

import os
from functools import partial

import numpy as np

from plugrad_cpu.extend import CompiledThreads, count_processors, thread_pool
from plugrad_native.variants import current_variant


def use_compiled_threads() -> None:
    """Make the thread pool run calls of C functions in threads of C, which need no interpreter."""
    if thread_pool.compiled is None and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=current_variant().forget_threads)
    given = np.ufunc, count_processors()
    thread_pool.compiled = CompiledThreads(
        partial(current_variant().run_calls_in_threads, *given),
        partial(current_variant().run_parts_in_threads, *given),
    )
