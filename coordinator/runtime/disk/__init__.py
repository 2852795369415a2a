"""Decides how a shard's log lies on a disk: the data directory, the files of each log, the thread that writes."""
