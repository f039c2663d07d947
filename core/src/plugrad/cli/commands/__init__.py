"""The commands. Each module has `add_arguments(parser)`, and `run(arguments)`, which may return an exit status."""
