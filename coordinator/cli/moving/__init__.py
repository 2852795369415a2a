"""Decides how positions come into groups and go out of them: checkpoints, groups of Kafka, backups, offsets to set."""
