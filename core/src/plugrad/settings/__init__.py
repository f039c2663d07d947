"""The settings: which there are, and the layers that they are read from."""
