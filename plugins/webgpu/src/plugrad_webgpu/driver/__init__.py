"""The driver through wgpu: its native calls, its limits, and what signals, forks and the end of Python do to it."""
