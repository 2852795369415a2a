"""Micro-batches and ranges that Spark counts as done and nobody has read, and what a query says and does then."""
