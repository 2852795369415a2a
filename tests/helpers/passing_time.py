"""Time that passes while members live: they ping, so that no session ends meanwhile."""

from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

STEP_MS = 500


def let_pass(world: NodeWorld, ms: int, *members: Member) -> None:
    """Let time pass, and a tick more, while these members ping."""
    for _ in range(ms // STEP_MS):
        world.advance(STEP_MS)
        for member in members:
            member.ping()
    world.advance(100)
