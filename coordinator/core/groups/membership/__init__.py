"""Decides who is in a group: registrations and what they may ask for, coming back, and removal."""
