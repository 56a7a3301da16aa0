"""Consumers of the event stream: terminal, JSON lines, JUnit XML, HTML page, evidence."""
