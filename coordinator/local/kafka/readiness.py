"""Says whether clients can work with a local broker, by asking as a client does.

An open port proves nothing. Here the broker names its cluster and itself, and the controller accepts a topic
that is only validated, which it refuses until the broker has registered and may hold a replica. Nothing is
changed.
"""

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka.files import NODE_ID
from coordinator.local.process.ports import LOOPBACK

_PROBE_TOPIC = "kcoord-readiness-probe"


def why_not_ready(port: int, cluster_id: str, timeout_ms: int = 5_000) -> str | None:
    """Return what is missing, None if the broker on `port` is ready.

    Raises `LocalServiceError` if it belongs to another cluster: that will not change by waiting.
    """
    address = f"{LOOPBACK}:{port}"
    try:
        with KafkaAdminClient(
            bootstrap_servers=address, bootstrap_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
        ) as admin:
            cluster = admin.describe_cluster()
            if cluster["cluster_id"] != cluster_id:
                raise LocalServiceError(
                    f"The broker on {address} belongs to cluster {cluster['cluster_id']}, not {cluster_id}: "
                    "choose another port."
                )
            brokers = [(broker["broker_id"], broker["host"], broker["port"]) for broker in cluster["brokers"]]
            if brokers != [(NODE_ID, LOOPBACK, port)]:
                return f"the cluster's brokers are {brokers}"
            admin.create_topics(
                {_PROBE_TOPIC: {"num_partitions": 1, "replication_factor": 1}},
                timeout_ms=timeout_ms,
                validate_only=True,
            )
    except KafkaError as error:
        return f"{type(error).__name__}: {error}"
    return None
