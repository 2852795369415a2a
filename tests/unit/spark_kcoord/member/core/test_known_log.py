"""The position of the log is kept by a member, by what it was told, and shown when it registers."""

from msgspec.structs import replace

from coordinator.protocol.messages import Advance, RegisterConsumer
from coordinator.protocol.parts import LogPosition
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.helpers.member_pair import MemberPair, accepted, claim, registered, start_fetcher

FIRST = LogPosition("life-1", 20)


def joined_at(position: LogPosition | None, **given: object) -> MemberPair:
    pair = MemberPair(**given)  # type: ignore[arg-type]
    pair.join()
    pair.find()
    pair.answer(RegisterConsumer, lambda request: replace(registered(request), log=position))
    return pair


def shown_by(pair: MemberPair) -> LogPosition | None:
    pair.lose()
    pair.pass_ms(1_000)
    return pair.find().log


def test_first_registration_shows_nothing_and_the_next_what_was_told() -> None:
    pair = MemberPair()
    pair.join()
    assert pair.find().log is None
    assert shown_by(joined_at(FIRST)) == FIRST


def test_grants_and_answers_say_that_the_log_has_come_further() -> None:
    pair = joined_at(FIRST)
    pair.push(start_fetcher(0, epoch=31))
    assert shown_by(pair) == LogPosition("life-1", 32)
    pair.answer(RegisterConsumer, lambda request: replace(registered(request), log=FIRST))
    pair.push(start_fetcher(0, epoch=10))
    call = pair.advance((), [claim()])
    pair.answer(Advance, lambda request: replace(accepted(request), log_end=40))
    assert pair.results[call].log == LogPosition("life-1", 40)
    assert shown_by(pair) == LogPosition("life-1", 40)


def test_newest_registration_counts_also_where_it_says_less() -> None:
    pair = joined_at(FIRST)
    pair.lose()
    pair.pass_ms(1_000)
    pair.find()
    pair.answer(RegisterConsumer, lambda request: replace(registered(request), log=LogPosition("life-2", 3)))
    assert shown_by(pair) == LogPosition("life-2", 3)


def test_checkpoint_shows_what_its_last_micro_batch_was_told() -> None:
    offset = StreamOffset("cluster", "g", "m1", (claim(),), log=LogPosition("life-1", 40))
    read = StreamOffset.from_json(offset.to_json())
    assert read.log == offset.log
    assert read == StreamOffset("cluster", "g", "m1", (claim(),))
    pair = MemberPair(member_id="m1", log=read.log)
    pair.join()
    assert pair.find().log == LogPosition("life-1", 40)
