"""The log of one shard as bytes: frames, segments, recovery and snapshots, without doing any input or output."""
