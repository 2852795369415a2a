"""Division of work: ranges among tasks, and the limits of a batch among partitions. Asks nobody."""
