"""The rules about consumers by hand: what is fine passes, and each anomaly planted into it is named."""

from collections import Counter
from collections.abc import Callable

import pytest

from spark_kcoord.consumer.core.held import Grant
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END, Chunk, OutOfRange, Resolved
from tests.sim.by_hand.rules import HandRules, Place
from tests.sim.kafka import Topic
from tests.sim.log.state import ViolationError

P, NEXT = ("t", 0), ("t", 1)
OLD, NEW = Topic("id-1", [3, 0], [40, 0]), Topic("id-2", [5, 2], [50, 9])


class Told:
    """The rules of a consumer, and what they are told."""

    def __init__(self, policy: str = "latest") -> None:
        self.coverage: Counter[str] = Counter()
        self.rules = HandRules("hand1", policy, self.coverage)

    def assigned_at(self, topic_id: str, offset: int) -> "Told":
        """Assign it where the group is."""
        self.rules.assigned({P: None}, {P: Place(topic_id, offset)})
        return self

    def comes(self, topic: Topic, start: int, end: int) -> "Told":
        """Have records come."""
        log_end = topic.ends[0]
        chunk = Chunk(P, 1, start, end, None, end - start, (), log_end, log_end, topic.topic_id)
        self.rules.news(chunk, topic)
        return self

    def read(self, topic: Topic, start: int, end: int) -> "Told":
        """Have records come and be returned."""
        self.comes(topic, start, end)
        self.rules.returned(P, topic.topic_id, start, end)
        return self

    def is_gone(self, topic: Topic, position: int, *, is_new_topic: bool) -> "Told":
        """Have it be told that its position is not there."""
        self.rules.news(OutOfRange(P, 1, position, is_new_topic), topic)
        return self

    def found(self, topic: Topic, position: int) -> "Told":
        """Have a beginning or an end be found."""
        self.rules.news(Resolved(P, 1, position, topic.topic_id), topic)
        return self


def in_old(policy: str = "latest") -> Told:
    """Return a consumer that has read up to 20 of the old topic."""
    return Told(policy).assigned_at("id-1", 10).read(OLD, 10, 20)


def test_a_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    told = in_old().is_gone(NEW, 20, is_new_topic=True).found(NEW, 5).read(NEW, 5, 8)
    assert told.coverage["by hand told of a topic made again"] == 1
    assert told.coverage["by hand returned from the beginning of a topic made again"] == 1


@pytest.mark.parametrize(
    "reads_on",
    [
        lambda: in_old().read(NEW, 20, 30),
        lambda: Told().assigned_at("id-1", 20).read(NEW, 20, 30),
        lambda: Told().assigned_at("id-1", 20).comes(NEW, 20, 30).read(OLD, 30, 31).read(NEW, 30, 31),
    ],
)
def test_a_position_of_a_former_topic_is_none_of_the_new_one(reads_on: Callable[[], Told]) -> None:
    with pytest.raises(ViolationError, match=r"^(former-position|passed-over): "):
        reads_on()


@pytest.mark.parametrize(("start", "end"), [(21, 30), (19, 30)])
def test_records_come_once_and_none_is_passed_over(start: int, end: int) -> None:
    with pytest.raises(ViolationError, match=r"^passed-over: "):
        in_old().read(OLD, start, end)


def test_a_position_that_its_own_topic_does_not_have_goes_on_by_the_policy() -> None:
    in_old().is_gone(OLD, 20, is_new_topic=False).found(OLD, 40).read(OLD, 40, 41)
    with pytest.raises(ViolationError, match=r"^passed-over: "):
        in_old("earliest").is_gone(OLD, 20, is_new_topic=False).found(OLD, 40).read(OLD, 40, 41)


def test_a_new_topic_is_not_begun_at_its_end() -> None:
    with pytest.raises(ViolationError, match=r"^passed-over: "):
        in_old().is_gone(NEW, 20, is_new_topic=False).found(NEW, 50).read(NEW, 50, 51)


@pytest.mark.parametrize(("is_subscribed_again", "may_pass"), [(False, False), (True, True)])
def test_a_partition_that_comes_of_a_topic_that_is_read_is_begun_at_its_beginning(
    *, is_subscribed_again: bool, may_pass: bool
) -> None:
    told = Told()
    told.rules.grown((NEXT,), {"t"})
    if is_subscribed_again:
        told.rules.unsubscribed()
    told.rules.grown((P, NEXT), {"t", "u"})
    if may_pass:
        told.found(NEW, 50).read(NEW, 50, 51)
        return
    with pytest.raises(ViolationError, match=r"^passed-over: "):
        told.found(NEW, 50).read(NEW, 50, 51)


def test_a_program_may_seek_where_it_wants_in_whatever_topic_there_is() -> None:
    told = in_old()
    for position, found in ((AT_END, 50), (AT_BEGINNING, 5)):
        told.rules.sought(P, Place("", position))
        told.found(NEW, found).read(NEW, found, found + 1)
    told.rules.sought(P, Place("", 30))
    told.read(NEW, 30, 31)


def test_a_commit_names_what_was_returned_and_nothing_of_a_former_topic() -> None:
    told = in_old()
    told.rules.committing({P: 20})
    with pytest.raises(ViolationError, match=r"^wrong-commit: "):
        told.rules.committing({P: 21})
    told.is_gone(NEW, 20, is_new_topic=True)
    told.rules.committing({})
    with pytest.raises(ViolationError, match=r"^former-commit: "):
        told.rules.committing({P: 20})


def test_a_commit_leaves_out_nothing_though_the_group_was_further_in_a_former_topic() -> None:
    told = Told().assigned_at("id-1", 30).is_gone(NEW, 30, is_new_topic=True).found(NEW, 5).read(NEW, 5, 8)
    with pytest.raises(ViolationError, match=r"^commit-left-out: "):
        told.rules.committing({})
    told.rules.committing({}, is_again=True)
    told.rules.committing({P: 8})
    told.rules.committed({P: 8})
    told.rules.committing({})
    assert told.coverage["by hand committed in a topic made again"] == 1


def test_the_end_of_a_former_topic_is_no_end_of_the_new_one() -> None:
    machine = ConsumerMachine(auto_commit=False, starts_over=True)
    machine.assign([Grant(*P, None, None, 10)])
    held = machine.held(P)
    assert held is not None
    held.end = held.high_watermark = OLD.ends[0]
    told = in_old()
    told.rules.must_be_of_this_life(machine)
    told.is_gone(NEW, 20, is_new_topic=True)
    with pytest.raises(ViolationError, match=r"^former-end: "):
        told.rules.must_be_of_this_life(machine)
    held.end = held.high_watermark = None
    told.rules.must_be_of_this_life(machine)
