"""Cases of listeners, and of the end of a consumer."""

from typing import Any

from tests.compare_consumer.case import Cases
from tests.compare_consumer.side import Heard, Side

CASES = Cases()
case = CASES.case


# ---- listeners ------------------------------------------------------------------------------------------------------


@case("a listener hears of what comes, and of what goes at the end")
def case_70(side: Side) -> Any:
    listener = Heard()
    with side.made(group=True) as consumer:
        consumer.subscribe([side.corpus.two], listener=listener)
        side.polled(consumer, 20)
    return listener.heard


@case("a listener hears of unsubscribe", "listeners at `unsubscribe`")
def case_71(side: Side) -> Any:
    listener = Heard()
    with side.made(group=True) as consumer:
        consumer.subscribe([side.corpus.two], listener=listener)
        side.polled(consumer, 20)
        consumer.unsubscribe()
        return list(listener.heard)


@case("a listener seeks what came")
def case_72(side: Side) -> Any:
    with side.made(group=True) as consumer:
        listener = Heard(assigned=lambda _: consumer.seek(side.corpus.first, 6))
        consumer.subscribe([side.corpus.one], listener=listener)
        return side.offsets(consumer, 4)


@case("a listener commits what is revoked", "a commit in `on_partitions_revoked` at `close`")
def case_73(side: Side) -> Any:
    with side.made(group=True, enable_auto_commit=False) as consumer:
        consumer.subscribe([side.corpus.one], listener=Heard(revoked=lambda _: consumer.commit()))
        side.polled(consumer, 4, max_records=4)
    with side.made(side.corpus.one, group=True) as other:
        return other.committed(side.corpus.first)


@case("a rebalance tells what moves", "rebalance")
def case_74(side: Side) -> Any:
    listener = Heard()
    with side.made(group=True) as one:
        one.subscribe([side.corpus.two], listener=listener)
        side.polled(one, 20)
        with side.made(side.corpus.two, group=True) as other:
            side.assigned(one, other, count=2)
            return [(what, len(partitions)) for what, partitions in listener.heard]


@case("a listener that raises", "a listener that raises")
def case_75(side: Side) -> Any:
    def fail(_: Any) -> None:
        raise KeyError("the listener's")

    with side.made(group=True) as consumer:
        consumer.subscribe([side.corpus.one], listener=Heard(assigned=fail))
        return side.raised(lambda: len(side.polled(consumer, 10)))


# ---- the end --------------------------------------------------------------------------------------------------------


@case("close twice")
def case_76(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.close()
    return consumer.close()


@case("a poll after close")
def case_77(side: Side) -> Any:
    consumer = side.by_hand()
    consumer.close()
    return side.raised(lambda: consumer.poll(timeout_ms=100))


@case("a with block closes the consumer")
def case_78(side: Side) -> Any:
    def use() -> str:
        with side.make() as consumer:
            consumer.assign([side.corpus.first])
            return "used"

    return side.raised(use)
