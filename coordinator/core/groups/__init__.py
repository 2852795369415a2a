"""The consumer groups of one shard: records, state, handlers and the reconciliation of ownership."""
