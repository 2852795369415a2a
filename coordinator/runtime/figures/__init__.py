"""Decides what a node counts of its own work, for metrics; not how that is written."""
