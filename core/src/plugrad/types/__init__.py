"""Element types, shapes and windows: the vocabulary of all other packages."""
