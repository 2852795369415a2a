"""The process that Spark runs a source in: whose it is, which Spark it has, its imports and its errors."""
