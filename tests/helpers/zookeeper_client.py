"""A plain ZooKeeper client for tests that look at the data from outside."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient


@contextmanager
def zookeeper_client(hosts: str, *, timeout_s: float = 4.0) -> Iterator[KazooClient]:
    """Return a client that is connected, and close it behind the block."""
    client = KazooClient(hosts=hosts, timeout=timeout_s)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()
