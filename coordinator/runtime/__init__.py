"""Makes it so: a port a folder, the clock, and the loop that performs the core's effects."""
