"""What kernels are made of: elementwise expressions, reductions, products, windows and orders."""
