"""Tests of accounts and sessions."""
