"""The contracts of the kernels that backends implement, one module per family."""
