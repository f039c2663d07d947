"""Functions of functions: gradients, Jacobians and other derivatives of Python functions."""
