"""Spark's interface to kcoord: the format, its readers, what listens to queries, a batch as a member."""
