"""Tracing: a backend that records the calls of kernels, and the replay of what it has recorded."""
