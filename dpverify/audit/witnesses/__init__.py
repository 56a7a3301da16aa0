"""Witnesses: events that tell two sides apart; learned, chosen, and put to the test elsewhere."""
