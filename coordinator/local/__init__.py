"""Real services as child processes on loopback, for the demo, the tests and the benchmarks.

`java` finds the Java runtime and fetches what it runs; `process` keeps a child that never outlives its parent, and
starts and stops a service over and over; `kafka`, `zookeeper` and `node` are made of these.
Nothing here knows the coordinator. Every failure is a `LocalServiceError` whose text says what went wrong and what
to do.
"""
