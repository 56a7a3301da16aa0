"""Pairs the three trees by name and runs the judges over them, as one stream of events."""
