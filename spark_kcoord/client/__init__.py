"""The client for programs that look at groups and operate them, as `kcoord group` does, without Spark or Kafka."""

from spark_kcoord.client.async_client import AsyncClient
from spark_kcoord.client.client import Client

__all__ = ["AsyncClient", "Client"]
