"""Decides how Kafka is asked: `port` is what a node has, over a client of blocking calls."""
