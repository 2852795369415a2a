"""Reads files that say where coordinators are and how they are spoken to; speaks with nobody itself."""
