"""Graphs as programs: tables of calls of C, which run as one call of Python."""
