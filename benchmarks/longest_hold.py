"""The longest step of a node that has a group of very many partitions, by what is asked of it.

    uv run python -m benchmarks.longest_hold [--partitions 100000]

The pure core in this process, with answers encoded, in processor time: what the event loop would stand still for. The
last line is for scripts; it fails when a step that decision 0024 bounds took longer than the bar.
"""

import argparse
import gc
import sys
from typing import Final

from benchmarks.hold_alone import MORE_CONNECTIONS  # it comes with the cases, its own and those before
from benchmarks.hold_node import CASES, Held
from coordinator.protocol.ids import MAX_NAMED

BAR_MS: Final = 20.0

NOT_BOUNDED: Final = frozenset({"all fall silent", "running claims are shown"})
"""The cases whose steps decision 0024 does not bound."""


def main() -> int:
    """Measure, and end with one line for scripts; the exit code is 1 when a bounded step was over the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000)
    held = Held(parser.parse_args().partitions // MAX_NAMED * MAX_NAMED, MORE_CONNECTIONS)
    longest = {True: 0.0, False: 0.0}
    for name, act in CASES.items():
        is_bounded = name not in NOT_BOUNDED
        gc.collect()
        gc.disable()
        held.longest_ms = 0.0
        act(held)
        gc.enable()
        longest[is_bounded] = max(longest[is_bounded], held.longest_ms)
        print(f"{name:<28} {held.longest_ms:8.1f} ms{'' if is_bounded else '  (not bounded)'}")
    is_ok = longest[True] <= BAR_MS
    print(
        f"bench-hold: {'OK' if is_ok else 'FAILED'} partitions={held.partitions} bounded_ms={longest[True]:.1f} "
        f"others_ms={longest[False]:.1f}"
    )
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
