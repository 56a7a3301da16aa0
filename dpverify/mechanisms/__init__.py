"""Mechanisms, one file each; spec/ and audits/ have a file of the same name for each of them."""
