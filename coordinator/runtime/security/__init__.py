"""Decides who may speak to a node: TLS on its connections, and the files that say who is who."""
