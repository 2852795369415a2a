"""Decides who has a place in a group that two processes claim, or two members of one program."""
