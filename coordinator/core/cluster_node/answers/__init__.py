"""Decides what a node of a cluster tells people about it."""
