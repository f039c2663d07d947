"""Element types, shapes and windows: what every other package speaks of."""
