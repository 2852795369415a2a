"""Decides what operators do to running groups: verbs, resets and where these lead, and pages of both."""
