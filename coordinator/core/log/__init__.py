"""The log of one shard as bytes: frames, segments, recovery and snapshots, without any input or output."""
