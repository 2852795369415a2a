"""Decides how partitions get to where they belong: stops, starts, grants, and what members are told of them."""
