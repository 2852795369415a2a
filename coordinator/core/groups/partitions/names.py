"""Names that very many keep, as one string for all of them: of topics, their ids, of principals and assignors.

Whatever is read off a connection or a disk is a string by itself each time, which takes more memory than its few
letters: ten thousand groups that have an offset of one topic would have its name ten thousand times.
"""

from functools import lru_cache


@lru_cache(maxsize=1_000)
def one_for_all(name: str) -> str:
    """Return a string that is equal to a name, the same for all who ask as long as the name is one of those asked last.

    Names are given by whoever reaches the port, so only so many are remembered; others are just not shared.
    """
    return name
