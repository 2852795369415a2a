"""Decides what people type, a file a verb or a group of them."""
