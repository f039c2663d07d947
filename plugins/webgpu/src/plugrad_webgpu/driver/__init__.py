"""The driver through wgpu: its native calls, its limits, and its reaction to signals, forks and the end of Python."""
