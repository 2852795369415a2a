"""Cases on real processes, one file for each thing that is done to a node."""
