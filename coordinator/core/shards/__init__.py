"""Decides which shards a node leads: their loads, snapshots, and the gates where what they say waits."""
