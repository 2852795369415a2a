"""A replica of one shard as a frozen value: which records it holds, whom it follows or leads, and what is committed."""
