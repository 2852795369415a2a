"""`python -m coordinator …` is the command line `kcoord …`."""

from coordinator.cli import main

main()
