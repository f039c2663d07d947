"""The contracts: what backends promise, one module per family, declared and without code."""
