"""The stops of partitions: how their owners are asked to let go, and how long they have for it."""
