"""Decides what is known of groups and of the cluster, and which rows of it are shown; asks nobody, reads no clock."""
