"""Graphs as programs: tables of calls of the exports, which run in the sandbox."""
