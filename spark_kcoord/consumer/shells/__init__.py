"""The ways in which a consumer waits: on the thread that calls it, or on an event loop."""
