"""Recorded graphs: the dispatches of a graph's kernels are recorded once, and encoded again at each call."""
