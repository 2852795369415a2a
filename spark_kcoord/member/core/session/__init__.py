"""Decides how a member is connected: its one connection, its states, and the times of its session."""
