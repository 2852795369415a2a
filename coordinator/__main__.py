"""`python -m coordinator …` is the command line `kcoord …`; both are what is here."""

import gc


def main() -> None:
    """Run the command line; this is the console script `kcoord`."""
    gc.disable()  # until the command line is imported
    from coordinator.cli import main

    main()


if __name__ == "__main__":
    main()
