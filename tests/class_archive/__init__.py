"""A Java whose Spark starts from an archive of its classes, for `make test`, which starts Spark some dozens of times.

Half of the processor time of a small Spark application is Java loading some twenty thousand classes. Java keeps them in
an archive that it maps ("class data sharing"), if every process has the same jars in the same order in front of its
class path. Spark puts the directory of its settings in front of them, so this Java puts it behind.
"""
