"""The verbs that set a machine up: files for other programs, completion of the shell."""
