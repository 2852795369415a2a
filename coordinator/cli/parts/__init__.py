"""Decides what verbs share: how the coordinator is asked, what a verb is about, what is printed and returned."""
