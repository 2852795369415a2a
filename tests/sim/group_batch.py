"""``spark_kcoord.batch`` as a process: a block that joins, claims, has its rows planned and read, or not, and commits.

Spark plans in another process than the member's, which says so to the coordinator on a connection of its own; so does
the end of the block ask. A program may look at the rows without reading them, and its block still ends well.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from coordinator.protocol.claim_columns import claims_in_columns, each_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import BeginClaims, BeginClaimsResponse, Response
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus
from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.member.core import events
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.sim.query import AwaitPartitions, Call, Query, Script, Step

if TYPE_CHECKING:
    pass

ASSIGNMENT_MS: Final = 4_000
ANSWER_MS: Final = 100
TRIES: Final = 8
NOT_ITS_OWN: Final = "not its own any more"
EXPECTED_ENDS = (NOT_ITS_OWN, "no action in the block read")
KINDS = ("read", "not read", "empty")
"""What has to happen; that planning is refused is rare."""


class GroupBatch(Query):
    """One block, from its beginning to its end; it has no checkpoint."""

    def _run(self) -> Script:
        yield self._step("the block begins")
        start = StreamOffset(cluster="", group=self.settings.group_id, member="")
        planner = yield from self._join(start, is_finished=True)
        yield AwaitPartitions(complete=True, timeout_ms=ASSIGNMENT_MS)
        offset = yield from self._carry_out(planner.next_offset(start, self.world.limit, is_single_run=False))
        yield self._step("ranges are claimed")
        claims = offset.claims
        if not claims:
            self._count("empty")
        elif self.world.dice.random() < 0.7:
            yield from self._read_rows(claims)
        else:
            self._count("not read")
        yield self._step("the block ends")
        if claims:
            yield from self._commit(claims)
        yield Call(events.LeaveCall())

    def _read_rows(self, claims: Sequence[Claim]) -> Script:
        statuses = yield from self._statuses(claims, is_question=False)
        if any(status.state is not ClaimState.RUNNING for status in statuses):
            self._count("refused to plan")
            raise KcoordError(f"ranges of this batch are {NOT_ITS_OWN} and cannot be read")
        yield self._step("the read is planned")
        yield Step("tasks are reading", self.world.batch_ms())
        for wait_ms in self.world.brokers.read(self.name, claims):
            yield Step("Kafka sends nothing", wait_ms)
        assert self._joined is not None
        self.world.deliver(self, self._joined.member_id, claims)
        self._count("read")

    def _commit(self, claims: Sequence[Claim]) -> Script:
        statuses = yield from self._statuses(claims, is_question=True)
        if any(status.state is ClaimState.OFFERED for status in statuses):
            raise UnreadBatchError("Nothing is committed, because no action in the block read its ranges")
        yield Call(events.AdvanceCall(tuple(claims), ()))

    def _statuses(self, claims: Sequence[Claim], *, is_question: bool) -> Script:
        """Ask from outside of the member, again where no answer comes."""
        assert self._joined is not None
        request = BeginClaims(self.settings.group_id, self._joined.member_id, claims_in_columns(claims), is_question)
        for _ in range(TRIES):
            answers: list[Response] = []
            self.world.operator.ask(request, answers.append)
            for _ in range(TRIES):
                yield Step("waits for the coordinator", ANSWER_MS)
                if answers:
                    return _claims_of(answers[0], claims)
        raise KcoordError("The coordinator has not answered.")

    def _count(self, kind: str) -> None:
        self.world.checker.coverage[f"block {kind}"] += 1


def _claims_of(response: Response, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
    if not isinstance(response, BeginClaimsResponse) or response.error is not ErrorCode.NONE:
        raise KcoordError(f"ranges of this batch are {NOT_ITS_OWN}: {response}")
    return each_status(response.claims, claims)
