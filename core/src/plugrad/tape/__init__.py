"""The tape that records calls, and the rules that pull gradients back along it."""
