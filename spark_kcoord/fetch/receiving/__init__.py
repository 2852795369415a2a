"""Responses of brokers, whole in memory, and the threads that take turns with the interpreter for it."""
