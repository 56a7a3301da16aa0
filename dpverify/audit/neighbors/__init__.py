"""Neighbors: pairs, templates of them, and a search among all of them."""
