"""Decides how members' connections are served: `port` is what a node has, with bounds on what it reads."""
