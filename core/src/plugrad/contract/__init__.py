"""Contracts: the name, inputs and attributes of a kernel, and the shape and dtype of its result."""
