"""The tensor (a handle on an array), the backend that owns the array, and the context in which ops run."""
