"""Decides the form of claims and committed offsets in the state: places that partitions share."""
