"""Outputs of anything, as labels and numbers, and the laws that they are drawn from."""
