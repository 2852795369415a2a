"""The longest step of a node that has a group of very many partitions, by what is asked of it.

    uv run python -m benchmarks.longest_hold [--partitions 100000]

The pure core in this process, with answers encoded, in processor time: what the event loop would stand still for. The
last line is for scripts; it fails when a step that decision 0024 bounds took longer than the bar.
"""

import argparse
import gc
import sys
from collections.abc import Callable
from typing import Final

from benchmarks import hold_alone as alone
from benchmarks import hold_cases as cases
from benchmarks.hold_node import Held
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import DescribeGroup, FetchOffsets, ListGroupEvents, ListGroups
from coordinator.protocol.messages.operators import DescribeControls

BAR_MS: Final = 20.0

CASES: Final[dict[str, tuple[Callable[[Held], None], bool]]] = {
    "commits of an operator": (cases.commit, True),
    "description of offsets": (lambda held: held.ask_for_all(DescribeGroup("offsets")), True),
    "all offsets": (lambda held: held.ask_for_all(FetchOffsets("offsets")), True),
    "reset": (cases.reset, True),
    "deletion of offsets": (cases.delete_offsets, True),
    "deletion of a group": (cases.delete_group, True),
    "commits with metadata": (cases.commit_notes, True),
    "offsets with metadata": (cases.fetch_notes, True),
    "members join": (cases.join, True),
    "description of members": (lambda held: held.ask_for_all(DescribeGroup("members")), True),
    "pause": (lambda held: cases.pause(held, is_paused=True), True),
    "resume": (lambda held: cases.pause(held, is_paused=False), True),
    "a member leaves": (cases.leave, True),
    "a member leaves with offsets": (cases.leave_with_offsets, True),
    "commits in many groups": (cases.commit_in_many, True),
    "list": (lambda held: held.ask_for_all(ListGroups()), True),
    "all fall silent": (lambda held: held.pass_time(700_000), False),
    "many groups are forgotten": (cases.forget_many, True),
    "many starts are shown": (cases.show_starts, True),
    "unknown claims are shown": (cases.show_unknown_claims, True),
    "a member claims all": (cases.run_claims, True),
    "running claims are shown": (cases.show_running_claims, False),
    "2,000 claims are refused": (lambda held: cases.refuse_micro_batch(held, 2_000), True),
    "thousands of members join": (cases.join_crowd, True),
    "one of thousands leaves": (cases.leave_crowd, True),
    "their shard is resigned": (cases.resign_crowd, True),
    "their shard is led again": (cases.lead_crowd, True),
    "a member joins alone": (cases.join_alone, True),
    "resets are planned": (cases.plan_resets, True),
    "all resets are cancelled": (cases.cancel_resets, True),
    "pauses with long reasons": (cases.pause_each, True),
    "what operators decided": (lambda held: held.ask_for_all(DescribeControls("alone")), True),
    "a timeline": (lambda held: held.ask_for_all(ListGroupEvents("alone")), True),
    "half of all is taken": (alone.take_late, True),
    "all of another is claimed": (alone.hold_all, True),
    "2,000 claimed ones are let go": (alone.let_go, True),
    "all claims are left": (alone.lose, False),
    "a member joins beside them": (alone.wait_beside, True),
    "all claims are old": (alone.grow_old, True),
    "all claims are given up": (alone.give_up, True),
    "a topic grows by a quarter": (alone.grow, True),
    "a topic is deleted": (alone.lose_topic, True),
}
"""The cases, in this order, and whether decision 0024 bounds their steps."""


def main() -> int:
    """Measure, and end with one line for scripts; the exit code is 1 when a bounded step was over the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=100_000)
    held = Held(parser.parse_args().partitions // MAX_NAMED * MAX_NAMED, alone.MORE_CONNECTIONS)
    longest = {True: 0.0, False: 0.0}
    for name, (case, is_bounded) in CASES.items():
        gc.collect()
        gc.disable()
        held.longest_ms = 0.0
        case(held)
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
