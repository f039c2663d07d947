"""Shaders: programs and plans, their WGSL, and how dtypes and shapes appear in it."""
