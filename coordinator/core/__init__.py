"""What happens: pure machines. Time, ids and chance come in as arguments; no socket, file, clock or logger."""
