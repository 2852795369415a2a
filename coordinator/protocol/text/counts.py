"""Numbers of things in sentences for people: `1 group`, `2 groups`."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its words, of which `many` is those of one with an s if it is not given.

    A verb goes with its noun: `counted(n, "partition is", "partitions are")`.
    """
    return f"{number} {one if number == 1 else many or one + 's'}"
