"""Decides what a member holds: granted partitions and open claims, cut into portions for the wire."""
