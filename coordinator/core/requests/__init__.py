"""Decides the way of each request to its answer, and answers what only reads."""
