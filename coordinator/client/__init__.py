"""The client of a coordinator that is no member: for the command line, the demo, and single requests of Spark."""
