"""Executable specifications of the mechanisms: the law of each, stated independently of the
code.
"""
