"""Consumers of the event stream: the terminal, and JSON lines."""
