"""The settings of a Spark that lives for some seconds or minutes and reads little, as those of tests do."""

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The second compiler and the threads of a garbage collector cost such a process more than they give."""
