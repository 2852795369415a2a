"""Lets Spark find ``format("kcoord")`` without a register call: it imports every top-level ``pyspark_*`` module."""

from spark_kcoord.source.data_source import KcoordDataSource as DefaultSource

__all__ = ["DefaultSource"]
