"""Recorded graphs: what the kernels of a graph do is noted once, and a call encodes it."""
