"""The handle on an array, the backend that owns the array, and what surrounds the ops of a program."""
