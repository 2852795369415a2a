"""The garbage collector of a process that must never stand still: short rounds, over what is new.

What a node holds, it holds for long: going through all of it again and again costs tenths of a second and finds
nothing. So rounds are frequent and small, and what has outlived a full one is left out of all later ones; it is still
freed when nothing refers to it, like everything else. Only garbage in cycles that grow old is never found.
"""

import gc

_THRESHOLDS = (5_000, 4, 2)


def keep_rounds_short() -> None:
    """Leave everything there is out of the collector's rounds, and from now on whatever outlives a full one."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
