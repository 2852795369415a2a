"""Real Kafka as a child process on loopback, for the demo, the tests and the benchmarks."""
