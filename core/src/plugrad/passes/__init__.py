"""Passes: functions from graph to graph that leave its results as they are, to the bit."""
