"""A standalone node loads nothing of a cluster's."""

import subprocess
import sys

CODE = """
import sys
import coordinator.service.standalone, coordinator.service
print(*sys.modules)
"""
OF_A_CLUSTER = (
    "kazoo",
    "coordinator.core.replica",
    "coordinator.core.peers",
    "coordinator.core.cluster.image",
    "coordinator.core.cluster_node.node",
    "coordinator.runtime.cluster",
    "coordinator.runtime.peers",
    "coordinator.service.cluster",
)


def test_a_standalone_node_loads_neither_zookeepers_client_nor_replicas() -> None:
    loaded = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout.split()
    assert "coordinator.core.node" in loaded
    assert [name for name in loaded if name.startswith(OF_A_CLUSTER)] == []
