"""The attacks: for each mechanism its configurations, crafted pairs and own planted faults."""
