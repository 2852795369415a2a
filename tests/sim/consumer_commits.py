"""The commits of a simulated consumer by the product's own flows: waited for, or out while its user goes on.

A commit that is refused because a later one was written before it was overtaken. That is a broken promise, unless its
member has connected again meanwhile, so that it was said twice, or its user has sought.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.parts import PartitionResult
from spark_kcoord.consumer.conduct.committing import Committer
from spark_kcoord.consumer.conduct.wishes import Answer, Call, Flow
from spark_kcoord.consumer.errors import CommitRefusedError
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.core import events
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.core.held.portions import bytes_of, portions
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.consumer import Consumer

TIMEOUT_S = 30.0
GOES_BACK = "committed offsets never move back"


class Commits:
    """The commits of one consumer. `fail` hears an error that ends it."""

    def __init__(self, consumer: "Consumer", fail: Callable[[KcoordError], None]) -> None:
        self._consumer = consumer
        self._fail = fail
        settings = parse_settings({"coordinators": "node:1", "group_id": "g", "enable_auto_commit": False})
        port: Any = self
        self._committer = Committer(settings, consumer.machine, port, lambda: True, lambda: 0.0)
        self.sought: set[tuple[str, int]] = set()
        """The partitions of which its user may say what was before."""
        self.told = 0
        """The callbacks that were run."""

    # ---- as the product's group is asked ----------------------------------------------------------------------------

    @property
    def granted(self) -> Assignment:
        """The partitions that the member knows now as its own."""
        return self._consumer.assignment

    def commit(self, offsets: Sequence[OffsetToCommit], timeout_ms: int | None = None) -> list[Future[Any]]:
        """Commit offsets on the member's connection."""
        del timeout_ms
        return [self._ask(portion) for portion in portions(offsets, bytes_of)]

    def _ask(self, offsets: Sequence[OffsetToCommit]) -> Future[Any]:
        answer: Future[Any] = Future()
        connects = self._consumer.connects

        def then(results: Sequence[PartitionResult]) -> None:
            if connects == self._consumer.connects:
                self._must_not_be_overtaken(results)
            answer.set_result(results)

        self._consumer.call(events.CommitCall(tuple(offsets)), then, answer.set_exception)
        return answer

    def _must_not_be_overtaken(self, results: Sequence[PartitionResult]) -> None:
        for result in results:
            if (result.topic, result.partition) not in self.sought and GOES_BACK in result.message:
                raise ViolationError("commit-overtaken", f"{self._consumer.name} committed later before it: {result}")

    # ---- as its user asks -------------------------------------------------------------------------------------------

    def wait_for(self, then: Callable[[], object]) -> None:
        """Commit all that was returned, and go on when that is answered."""
        self._go_on(self._committer.commit(None, TIMEOUT_S), None, then)

    def send_off(self) -> None:
        """Commit all that was returned, and do not wait."""
        self._committer.commit_async(None, self._on_told)

    def run_callbacks(self) -> None:
        """Have the next one go out, and tell what came of those before."""
        for wish in self._committer.run_callbacks():
            assert isinstance(wish, Call)
            wish.work()

    def _on_told(self, _: Any, error: Exception | None) -> None:
        self.told += 1
        if isinstance(error, KcoordError) and not isinstance(error, CommitRefusedError):
            self._fail(error)

    def _go_on(self, flow: Flow[None], answered: Future[Any] | None, then: Callable[[], object]) -> None:
        try:
            if answered is None:
                wish = next(flow)
            elif (error := answered.exception()) is not None:
                wish = flow.throw(error)
            else:
                wish = flow.send(answered.result())
        except StopIteration:
            then()
        except CommitRefusedError:
            # Somebody else has the partition now, and reads it again.
            then()
        except KcoordError as error:
            self._fail(error)
        else:
            assert isinstance(wish, Answer)
            wish.future.add_done_callback(lambda future: self._consumer.later(0, self._go_on, flow, future, then))
