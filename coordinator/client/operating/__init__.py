"""Decides what the command line, the console and `kcoord.Client` have in common about groups; shows nothing itself."""
