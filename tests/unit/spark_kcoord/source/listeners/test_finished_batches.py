"""Finished micro-batches are told once, the newest first, and a failure is known to who waits for it."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from coordinator.protocol.claim_columns import claims_in_columns, claims_of, count_of, finished_as_asked, outcomes_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FinishClaims, FinishClaimsResponse
from coordinator.protocol.parts import Claim, Outcomes, PartitionResult
from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.member.core.held.portions import MAX_ITEMS
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.source.listeners.finished_batches import FinishedBatch, FinishedBatches

NODES = (("c1", 7600),)


class Coordinator:
    """Answers what it is asked, after `gate` is open; `failure` is raised once."""

    def __init__(self) -> None:
        self.asked: list[FinishClaims] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_asked = threading.Event()
        self.failure: Exception | None = None
        self.error = ErrorCode.NONE
        self.committed: int | None = None

    def __call__(self, nodes: Any, request: Any, timeout_s: float) -> FinishClaimsResponse:
        assert (nodes, request.group_id) == (NODES, "g")
        self.is_asked.set()
        assert self.gate.wait(30)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self.asked.append(request)
        named = tuple(claims_of(request.claims))
        results = [PartitionResult(c.topic, c.partition, self.error, committed=self.committed) for c in named]
        return FinishClaimsResponse(results=outcomes_of(results, map(finished_as_asked, named)))


def a_batch(batch_id: int, *, run: str = "run", until: int | None = None) -> FinishedBatch:
    end = batch_id * 10 + 10 if until is None else until
    offset = StreamOffset("c", "g", "m1", (Claim("t", "id", 0, 7, end - 10, end),))
    return FinishedBatch(run, batch_id, {0: (offset, NODES)})


def untils(coordinator: Coordinator) -> list[int]:
    return [request.claims[0].until_offsets[0] for request in coordinator.asked]


def test_a_finished_batch_is_told_under_its_member_and_waited_for() -> None:
    coordinator = Coordinator()
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    finished.wait("run", 0, 10)
    assert coordinator.asked == [FinishClaims("g", "m1", claims_in_columns((Claim("t", "id", 0, 7, 0, 10),)))]
    finished.close()


def test_only_the_newest_of_a_run_waits_while_one_is_told() -> None:
    coordinator = Coordinator()
    coordinator.gate.clear()
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    assert coordinator.is_asked.wait(30)
    for batch_id in (1, 2, 3):
        finished.add(a_batch(batch_id))
    coordinator.gate.set()
    finished.wait("run", 3, 10)
    assert untils(coordinator) == [10, 40]
    finished.close()


def test_a_run_whose_coordinator_is_away_holds_up_no_other() -> None:
    away, well = Coordinator(), Coordinator()
    away.gate.clear()

    def ask(nodes: Any, request: Any, timeout_s: float) -> FinishClaimsResponse:
        asked = well if request.claims[0].until_offsets[0] == 99 else away
        return asked(nodes, request, timeout_s)

    finished = FinishedBatches(timeout_s=60, ask=ask)
    finished.add(a_batch(0))
    assert away.is_asked.wait(30)
    finished.add(a_batch(0, run="other", until=99))
    finished.wait("other", 0, 20)
    assert (untils(away), untils(well)) == ([], [99])
    away.gate.set()
    finished.wait("run", 0, 20)
    assert untils(away) == [10]
    finished.close()


def test_what_is_still_being_told_at_the_end_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    coordinator.gate.clear()
    finished = FinishedBatches(timeout_s=60, ask=coordinator)
    finished.add(a_batch(0))
    assert coordinator.is_asked.wait(30)
    finished.close(timeout_s=0.01)
    coordinator.gate.set()
    assert "1 finished micro-batches were not known to be committed before the end" in caplog.text


def test_a_batch_that_no_thread_was_to_be_had_for_is_warned_of_unless_a_later_one_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    coordinator = Coordinator()
    finished, without = (FinishedBatches(timeout_s=1, ask=coordinator) for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        for each in (finished, without):
            with pytest.raises(RuntimeError):
                each.add(a_batch(0))
    finished.add(a_batch(1))
    finished.wait("run", 1, 20)
    finished.close()
    assert (untils(coordinator), caplog.text) == ([20], "")
    without.close()
    assert "1 finished micro-batches were not known to be committed before the end" in caplog.text


def test_a_batch_without_news_is_not_told_again() -> None:
    coordinator = Coordinator()
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    for batch_id in (0, 1, 2):
        finished.add(a_batch(batch_id, until=10))
        finished.wait("run", batch_id, 10)
    assert untils(coordinator) == [10]
    finished.close()


def test_a_micro_batch_of_any_size_is_told_in_requests_that_fit_a_frame() -> None:
    """A request that does not was an error of another kind, by which the thread ended: nothing was told any more."""
    coordinator = Coordinator()
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    claims = tuple(Claim(topic * 249, "id", number, 7, 0, 10) for topic in "tu" for number in range(11_000))
    finished.add(FinishedBatch("run", 0, {0: (StreamOffset("c", "g", "m1", claims), NODES)}))
    finished.wait("run", 0, 10)
    assert [claim for request in coordinator.asked for claim in claims_of(request.claims)] == list(claims)
    assert max(count_of(request.claims) for request in coordinator.asked) <= MAX_ITEMS
    finished.close()


@pytest.mark.parametrize("code", [ErrorCode.CLAIM_CLOSED, ErrorCode.FENCED_OWNER_EPOCH])
def test_a_range_that_is_closed_is_no_failure(code: ErrorCode) -> None:
    coordinator = Coordinator()
    coordinator.error = code
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    finished.wait("run", 0, 10)
    finished.close()


def test_a_micro_batch_that_spark_has_not_read_is_an_error_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    coordinator.error = ErrorCode.CLAIM_NOT_RUNNING
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(3))
    with pytest.raises(UnreadBatchError, match=r"has not read it, so that \[30, 40\) of t-0 are not committed"):
        finished.wait("run", 3, 10)
    assert [record.levelname for record in caplog.records if "micro-batch 3 is not committed" in record.message] == [
        "ERROR"
    ]
    finished.close()


@pytest.mark.parametrize(("unread", "committed", "errors"), [({0}, 0, 1), ({0}, 5, 0), (set(), 0, 0)])
def test_a_micro_batch_without_rows_that_was_let_go_is_said_to_be_unread(
    unread: set[int], committed: int, errors: int, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator = Coordinator()
    coordinator.error, coordinator.committed = ErrorCode.FENCED_OWNER_EPOCH, committed
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(replace(a_batch(0), unread=frozenset(unread)))
    finished.wait("run", 0, 10)
    assert sum("Spark read no row" in record.message for record in caplog.records) == errors
    finished.close()


def test_what_cannot_be_told_fails_who_waits_for_it_and_not_the_next() -> None:
    coordinator = Coordinator()
    coordinator.failure = KcoordError("No kcoord coordinator answered within 1 s.")
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    with pytest.raises(KcoordError, match="No kcoord coordinator answered"):
        finished.wait("run", 0, 10)
    finished.add(a_batch(1))
    finished.wait("run", 1, 10)
    assert untils(coordinator) == [20]
    finished.close()


def test_a_bug_in_telling_fails_who_waits_at_once_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    coordinator = Coordinator()
    coordinator.failure = ZeroDivisionError("a bug")
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    with pytest.raises(KcoordError, match="ZeroDivisionError: a bug"):
        finished.wait("run", 0, 5)
    assert "micro-batch 0" in caplog.text
    assert "Traceback" in caplog.text
    finished.add(a_batch(1))
    finished.wait("run", 1, 10)
    assert untils(coordinator) == [20]
    finished.close()


def test_waiting_for_what_was_never_reported_ends_with_what_to_do() -> None:
    finished = FinishedBatches(timeout_s=1, ask=Coordinator())
    with pytest.raises(KcoordError, match="attach\\(\\) was called before"):
        finished.wait("run", 0, 0.01)
    finished.close()


def test_closing_tells_what_still_waits() -> None:
    coordinator = Coordinator()
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    finished.close()
    finished.add(a_batch(1))
    assert untils(coordinator) == [10]


@pytest.mark.parametrize("results", [Outcomes(), Outcomes(as_asked=2), Outcomes(others=(PartitionResult("t", 0),))])
def test_answer_that_does_not_account_for_every_range_commits_nothing(results: Outcomes) -> None:
    finished = FinishedBatches(timeout_s=1, ask=lambda *asked: FinishClaimsResponse(results=results))
    finished.add(a_batch(0))
    with pytest.raises(KcoordError, match="did not say of each of 1 ranges"):
        finished.wait("run", 0, 10)
    finished.close()


def test_a_run_that_ended_while_its_last_batch_was_told_is_forgotten_with_it() -> None:
    """A session lives for months and runs a query every minute: what was said of each of them stayed."""
    coordinator = Coordinator()
    coordinator.gate.clear()
    finished = FinishedBatches(timeout_s=1, ask=coordinator)
    finished.add(a_batch(0))
    assert coordinator.is_asked.wait(30)
    finished.add(a_batch(1))
    finished.add(a_batch(0, run="other"))
    finished.forget("run")
    finished.forget("other")
    coordinator.gate.set()
    finished.wait("run", 1, 10)
    finished.wait("other", 0, 10)
    for run, batch_id in (("run", 1), ("other", 0)):
        finished.add(a_batch(batch_id, run=run))
    finished.close()
    assert sorted(untils(coordinator)) == [10, 10, 10, 20, 20], "nothing of it is known any more"
