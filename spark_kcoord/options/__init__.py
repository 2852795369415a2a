"""All that may be said of a read, checked: executors load it with a reader. Standard library only."""
