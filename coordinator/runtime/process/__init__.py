"""Decides what belongs to the process and to no port: signals, its log, its event loop, the collector."""
