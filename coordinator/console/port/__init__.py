"""The port of the console: its connections, their TLS and their bounds, and the names under which it is reached."""
