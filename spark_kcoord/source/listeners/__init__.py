"""Listeners of a Spark session: each finished micro-batch is committed at once, and lag is told."""
