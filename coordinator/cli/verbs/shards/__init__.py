"""`kcoord shard …` and what of `kcoord node …` moves shards."""
