"""The two registries: (kernel, backend) to implementation, and kernel to gradient."""
