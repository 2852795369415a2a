"""Reading partitions from a position on without an end, as their records come."""
