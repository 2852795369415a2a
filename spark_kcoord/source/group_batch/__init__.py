"""``spark_kcoord.batch``: a batch read as a member of a group."""
