"""A node of a cluster over its real ports: the driver, and the work of its disk that takes time."""
