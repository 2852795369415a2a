"""Decides what the demo shows: pictures, sentences, and a terminal's table."""
