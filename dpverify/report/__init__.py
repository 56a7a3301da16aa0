"""Consumers of the event stream: the terminal, JSON lines, JUnit XML, an HTML page, and
evidence of violations.
"""
