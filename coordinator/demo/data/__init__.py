"""Decides what is produced, and whether all of it arrived."""
