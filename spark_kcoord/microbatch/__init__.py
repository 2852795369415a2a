"""Micro-batches of a streaming query: the ranges it reads and commits next, under promises that hold. Without Spark."""
