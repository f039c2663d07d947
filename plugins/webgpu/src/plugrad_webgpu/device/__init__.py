"""Devices: how they are found and opened, and how they record, merge and submit calls."""
