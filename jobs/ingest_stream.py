"""The job `spark_kcoord.jobs.ingest_stream` as a file for spark-submit; `--help` shows its arguments."""

import sys

from spark_kcoord.jobs.ingest_stream import main

if __name__ == "__main__":
    sys.exit(main())
