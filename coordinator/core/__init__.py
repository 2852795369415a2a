"""The pure machines that decide. Time, ids and chance come in as arguments; no socket, file, clock or logger."""
