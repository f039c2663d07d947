"""The implementations, one module per family; importing a module adds them to the table of `declare`."""
