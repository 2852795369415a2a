"""Decides how the console answers by HTTP: its API, its pages, and who is answered at all."""
