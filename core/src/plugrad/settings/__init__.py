"""The settings, and the layers that they are read from."""
