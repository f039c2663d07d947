"""Pictures of programs: the kernels that a function runs, and those of its gradient, as a graph."""
