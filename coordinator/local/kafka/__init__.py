"""Decides how a real broker is run: `broker`, its files, when it is ready, and its topics."""
