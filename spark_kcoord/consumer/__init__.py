"""A plain consumer: a member of the same groups in any Python program. Needs pyarrow and numpy, and no PySpark."""

from spark_kcoord.extras import naming_the_extra

with naming_the_extra("A consumer", "consumer"):
    from spark_kcoord.consumer.async_consumer import AsyncConsumer
    from spark_kcoord.consumer.consumer import Consumer

__all__ = ["AsyncConsumer", "Consumer"]
