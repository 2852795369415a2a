"""Decides what bounds groups in bytes and in time: room for requests, age of claims, retention."""
