"""Bringing kcoord to a cluster: the archive that executors need, and the facts of an install that doctor tells."""
