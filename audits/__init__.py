"""Attacks on every mechanism: its configurations, crafted pairs and planted faults of its own."""
