"""Requests and commits, counted and timed."""

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    Ping,
    PingResponse,
)
from coordinator.protocol.parts import Outcomes, PartitionResult
from coordinator.runtime.figures.requests import RequestFigures

ADVANCE = Advance((), ())
PING = Ping(4)
COMMIT = CommitOffsets("g", ())


class World:
    """Figures with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.figures = RequestFigures(lambda: self.now_s)

    def asks(self, request: object, response: object, took_s: float) -> None:
        self.figures.asked(1, 7, request)  # type: ignore[arg-type]
        self.now_s += took_s
        self.figures.answered(1, 7, response)  # type: ignore[arg-type]

    def told(self) -> dict[str, dict[tuple[str, ...], float]]:
        return {
            family.name: {
                (suffix, *(value for name, value in labels)): number
                for suffix, labels, number in family.samples
                if suffix != "_bucket"
            }
            for family in self.figures.families()
        }


def test_a_request_is_timed_from_when_it_comes_to_its_answer() -> None:
    world = World()
    world.asks(PING, PingResponse(), 0.25)
    world.asks(PING, ErrorResponse(ErrorCode.NOT_COORDINATOR, "w"), 0.5)
    told = world.told()
    assert told["kcoord_request_seconds"] == {("_sum", "Ping"): 0.75, ("_count", "Ping"): 2}
    assert told["kcoord_requests_refused_total"] == {("", "Ping", "NOT_COORDINATOR"): 1}
    assert told["kcoord_commit_duration_seconds"] == {("_sum",): 0, ("_count",): 0}


def test_commits_are_counted_by_what_became_of_them() -> None:
    world = World()
    fenced = PartitionResult("t", 3, ErrorCode.FENCED_OWNER_EPOCH)
    wrong = PartitionResult("t", 4, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    shown = PartitionResult("t", 5)
    world.asks(ADVANCE, AdvanceResponse(finished=Outcomes(3, (fenced, shown), (3, 4))), 0.5)
    world.asks(COMMIT, CommitOffsetsResponse(refused=(wrong, fenced), accepted=2), 0.25)
    world.asks(PING, PingResponse(accepted=4), 0.25)
    world.asks(PING, PingResponse(), 0.25)
    told = world.told()
    assert told["kcoord_commits_total"] == {("", "accepted"): 10, ("", "fenced"): 2, ("", "refused"): 1}
    assert told["kcoord_commits_fenced_total"]["", "FENCED_OWNER_EPOCH"] == 2
    assert told["kcoord_commits_fenced_total"]["", "CLAIM_CLOSED"] == 0
    assert told["kcoord_commit_duration_seconds"] == {("_sum",): 1.0, ("_count",): 3}


def test_an_advance_that_commits_nothing_is_no_commit() -> None:
    world = World()
    world.asks(ADVANCE, AdvanceResponse(claims=Outcomes(3)), 0.5)
    assert world.told()["kcoord_commit_duration_seconds"] == {("_sum",): 0, ("_count",): 0}


def test_each_request_is_timed_by_its_own_answer_however_many_wait() -> None:
    world = World()
    asked = ((1, 7, PING), (1, 8, COMMIT), (1, 9, ADVANCE), (2, 7, PING))
    for connection_id, correlation_id, request in asked:
        world.figures.asked(connection_id, correlation_id, request)
        world.now_s += 1
    world.figures.answered(1, 9, AdvanceResponse())
    world.figures.answered(2, 7, PingResponse())
    world.figures.answered(1, 8, CommitOffsetsResponse(accepted=1))
    world.figures.answered(1, 8, CommitOffsetsResponse(accepted=1))
    world.figures.answered(1, 7, PingResponse())
    told = world.told()
    took = told["kcoord_request_seconds"]
    assert {api: took["_sum", api] for api in ("Ping", "CommitOffsets", "Advance")} == {
        "Ping": 4 + 1,
        "CommitOffsets": 3,
        "Advance": 2,
    }
    assert told["kcoord_commit_duration_seconds"] == {("_sum",): 3, ("_count",): 1}


def test_nothing_is_kept_of_requests_that_wait_behind_others_either() -> None:
    world = World()
    for correlation_id in (7, 8, 9):
        world.figures.asked(1, correlation_id, PING)
    world.figures.closed(1)
    for correlation_id in (7, 8, 9):
        world.figures.answered(1, correlation_id, PingResponse())
    assert world.told()["kcoord_request_seconds"] == {}


def test_nothing_is_kept_of_a_connection_that_is_closed() -> None:
    world = World()
    world.figures.asked(1, 7, PING)
    world.figures.closed(1)
    world.figures.closed(1)
    world.figures.answered(1, 7, PingResponse())
    world.figures.answered(2, 7, PingResponse())
    assert world.told()["kcoord_request_seconds"] == {}
