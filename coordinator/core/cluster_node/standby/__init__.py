"""Decides which committed records the standbys of followed shards are fed, and when."""
