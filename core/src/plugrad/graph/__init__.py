"""Graphs: what a traced function does, as calls of kernels on numbered values."""
