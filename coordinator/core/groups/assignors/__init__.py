"""Who should read which partition: pure functions from members and partitions to a target assignment."""
