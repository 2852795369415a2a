"""A member whose coordinator is gone asks the next one first, as the coordinator named it, and from there the rest."""

from msgspec.structs import replace

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse, Ping, PingResponse, RegisterConsumer
from coordinator.protocol.parts import NodeAddress
from tests.helpers.member_pair import MemberPair, registered, settings

NODES = tuple(NodeAddress(number, f"n{number}", 7600) for number in range(1, 5))


def answer(
    leader: int, leader_epoch: int, *successors: int, live: tuple[int, ...] = (1, 2, 3, 4)
) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinator=NODES[leader - 1],
        leader_epoch=leader_epoch,
        nodes=tuple(node for node in NODES if node.node_id in live),
        successors=successors,
    )


def joined(*successors: int, live: tuple[int, ...] = (1, 2, 3, 4)) -> MemberPair:
    """Return a member in its group, whose coordinator is node 1."""
    pair = MemberPair(member_settings=settings(coordinators=(("n1", 7600),)))
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, answer(1, 4, *successors, live=live))
    pair.answer(RegisterConsumer, registered)
    pair.connects.clear()
    return pair


def tried(pair: MemberPair, count: int) -> str:
    """Return the numbers of the nodes that are tried, of which none can be connected to."""
    for _ in range(count):
        pair.lose("Connection refused")
        pair.pass_ms(1_000)
    return "".join(connect.host[1:] for connect in pair.connects)


def test_successors_are_asked_first_and_then_everybody_in_turn() -> None:
    assert tried(joined(3, 4), 9) == "342134213"


def test_member_that_was_told_of_no_successors_goes_round_as_ever() -> None:
    assert tried(joined(), 5) == "23412"


def test_successor_without_an_address_is_left_out() -> None:
    assert tried(joined(3, 9, 2, live=(1, 2)), 3) == "212"


def test_successors_that_know_of_nobody_do_not_keep_the_member_from_the_rest() -> None:
    pair = joined(3, 2)
    pair.lose()
    for _ in range(6):
        pair.pass_ms(1_000)
        pair.accept()
        refusal = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody", nodes=NODES, successors=(3, 2))
        pair.answer(FindCoordinator, refusal)
    pair.pass_ms(1_000)
    assert "".join(connect.host[1:] for connect in pair.connects) == "3241324"


def test_successors_are_those_of_the_coordinator_that_let_the_member_in() -> None:
    pair = joined(3, 2)
    pair.lose()
    pair.pass_ms(50)
    pair.accept()
    pair.answer(FindCoordinator, replace(answer(2, 5, 3, 1)))
    pair.accept()
    pair.answer(FindCoordinator, answer(2, 5, 4, 3))
    pair.answer(RegisterConsumer, registered)
    assert tried(pair, 4) == "324" + "31" + "2"[:1]


def test_successors_that_an_answer_to_a_ping_names_are_asked_first_from_then_on() -> None:
    pair = joined(3, live=(1, 3))
    for successors in ((NODES[1], NODES[2]), None):
        pair.pass_ms(settings().session_timeout_ms // 3 + 1)
        pair.answer(Ping, PingResponse(successors=successors))
    assert tried(pair, 2) == "23"
