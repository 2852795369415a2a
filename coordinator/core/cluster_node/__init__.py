"""One node of a cluster: the rooms that decide about replicas, about the cluster and about groups, joined.

Each of those rooms knows nothing of the others. Here the effects of one become the events of another, or are handed on
to a port: the disk, the peers, ZooKeeper. A standalone node has no use for any of it.
"""
