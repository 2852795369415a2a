"""Decides how values are written for people: addresses, durations, and what cannot be printed."""
