"""The job `spark_kcoord.jobs.lag_report` as a file for spark-submit; `--help` shows its arguments."""

import sys

from spark_kcoord.jobs.lag_report import main

if __name__ == "__main__":
    sys.exit(main())
