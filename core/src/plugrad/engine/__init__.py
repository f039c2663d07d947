"""The engine: it runs kernels, wraps their results and records them on the tape."""
