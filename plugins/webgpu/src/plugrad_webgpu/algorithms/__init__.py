"""The building blocks of kernels: elementwise expressions, reductions, products, windows and orders."""
