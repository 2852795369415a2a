"""Decides what of groups a restart may forget: sessions, deadlines, what is under way, the timeline."""
