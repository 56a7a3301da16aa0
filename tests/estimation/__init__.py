"""Tests of what several mechanisms are made of."""
