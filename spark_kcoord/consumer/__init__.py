"""A plain consumer: a member of the same groups in any Python program. Needs pyarrow and numpy, and no PySpark."""

from spark_kcoord.consumer.consumer import Consumer, ConsumerSettings

__all__ = ["Consumer", "ConsumerSettings"]
