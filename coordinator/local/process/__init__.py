"""Decides how a child process is kept: it never outlives its owner, and a service is one over and over."""
