"""The cluster's registry and what is decided upon it: which nodes there are, which of them leads which shard.

Pure, as all of the core; knows nothing of groups, of logs or of how a replica follows another.
"""
