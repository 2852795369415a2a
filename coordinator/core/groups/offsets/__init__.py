"""Decides what is committed: claims of micro-batches, commits, and offsets that Kafka does not have."""
