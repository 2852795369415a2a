"""Makes it so: one port a file (server, disk, clock, Kafka), and the loop that performs the core's effects."""
