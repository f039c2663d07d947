"""Contracts: what a kernel is called, what it takes, and the shape and dtype of what it returns."""
