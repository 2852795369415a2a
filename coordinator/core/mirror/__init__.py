"""The mirror: committed offsets as Kafka's own tools see them, written to groups of Kafka's that have no members."""
