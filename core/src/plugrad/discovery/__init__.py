"""Plugins: which are installed, how they are loaded, and which backend runs."""
