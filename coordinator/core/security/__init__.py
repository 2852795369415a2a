"""Principals, and what each of them may do: rules and rights. Pure; knows no socket, file or clock."""
