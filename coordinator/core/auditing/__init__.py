"""The audit log of a node: changes that somebody asked for, as they stood before and after."""
