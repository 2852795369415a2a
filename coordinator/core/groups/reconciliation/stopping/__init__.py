"""How owners are asked to let go of partitions, and how long they have for it."""
