"""Decides the forms of very many partitions: sets, tables and columns by topic, and pages of them."""
