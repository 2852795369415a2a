"""Verbs that look at a group for as long as somebody wants to."""
