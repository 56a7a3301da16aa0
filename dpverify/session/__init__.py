"""A table, a budget, and answers that are paid for from an account."""
