"""Begins the bench of the plain consumer; its children load this file and nothing of any library with it."""

import sys

if __name__ == "__main__":
    from benchmarks.consumer.bench import main

    sys.exit(main())
