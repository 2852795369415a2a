"""Jobs that read ``format("kcoord")``: ``python -m spark_kcoord.jobs.NAME``, or the file of one given to spark-submit.

Each has arguments, ``--help`` shows them, and exit codes; none is imported by the source.
"""

from spark_kcoord.extras import naming_the_extra

with naming_the_extra("A job"):
    import pyspark  # noqa: F401  # what every job needs first
