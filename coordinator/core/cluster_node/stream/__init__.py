"""The records that a leader pushes to its followers, and the tail of its log that they come from."""
