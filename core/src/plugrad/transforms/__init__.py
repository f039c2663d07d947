"""Transforms: gradients, Jacobians and other derivatives of Python functions, and variables."""
