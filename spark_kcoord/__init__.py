"""The Spark data source ``format("kcoord")``: Spark as a member of a consumer group."""
