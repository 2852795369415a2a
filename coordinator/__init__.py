"""The coordinator service: consumer groups for Spark, kept in a replicated log."""
