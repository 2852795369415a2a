"""Decides where partitions belong: what a subscription stands for, targets, and streams of a member."""
