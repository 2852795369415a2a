"""Quick starts of Python and Spark, for `make test`, which starts hundreds of processes of one and dozens of the other.

Two thirds of what a Python process of a Spark query takes to start is compiling PySpark, which Spark hands it as a zip
file; and where the environment keeps Python from writing what it compiles, all of ours comes on top.

Half of the processor time of a small Spark application is Java loading some fourteen thousand classes. Java keeps them
in an archive that it maps ("class data sharing"), if every process has the same jars in the same order in front of its
class path. Spark puts the directory of its settings in front of them, so this Java puts it behind. An archive holds for
one path of the jars, and each clone has its own PySpark; so both are in the user's cache, the jars as links.
"""
