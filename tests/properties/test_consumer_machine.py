"""Whatever is polled, sought, paused, broken off and handed over: rows come once under a grant, in order, and whole."""

from hypothesis import given
from hypothesis import strategies as st

from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.member.core.held.holdings import Assignment
from tests.helpers.fake_consuming import FakeFetcher, owned

KEY = ("t", 0)
END = 40

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("poll"), st.integers(1, 9)),
        st.tuples(st.just("broken poll"), st.integers(1, 9)),
        st.tuples(st.just("seek"), st.integers(0, END)),
        st.tuples(st.just("pause"), st.just(0)),
        st.tuples(st.just("resume"), st.just(0)),
        st.tuples(st.just("granted anew"), st.integers(0, END)),
    ),
    max_size=30,
)


def settle(machine: ConsumerMachine, assignment: Assignment) -> None:
    machine.adopt(assignment)
    while (owed := machine.next_owed()) is not None:
        machine.begin_telling(owed)
        machine.end_telling(owed)


@given(STEPS)
def test_positions_and_what_is_done_follow_what_was_returned(steps: list[tuple[str, int]]) -> None:
    machine = ConsumerMachine(auto_commit=True, starts_over=True)
    kafka = FakeFetcher({KEY: END})
    epoch, expected, done = 7, 0, 0
    settle(machine, Assignment((owned(0),), is_complete=True))
    for step, number in steps:
        if step in ("poll", "broken poll"):
            for noted in machine.begin_call():
                assert noted.offset == expected
            done = expected
            kafka.want(machine.wanted() or kafka.wanted)
            news = kafka.news()
            machine.receive(news)
            kafka.taken(news)
            pieces = machine.take(number)
            rows = [offset for piece in pieces for offset in piece.rows.column("offset").to_pylist()]
            assert rows == list(range(expected, expected + len(rows)))
            machine.mark_returned(pieces)
            if step == "broken poll":
                machine.take_back()
            elif rows:
                expected = rows[-1] + 1
        elif step == "seek":
            machine.seek(KEY, number)
            expected = done = number
        elif step == "pause":
            machine.pause([KEY])
        elif step == "resume":
            machine.resume([KEY])
        else:
            epoch += 1
            settle(machine, Assignment((owned(0, number, epoch),), is_complete=True))
            expected = done = number
        machine.settle()
        held = machine.held(KEY)
        assert held is not None
        assert (held.position, held.done) == (expected, done)
    held = machine.held(KEY)
    assert held is not None
    assert kafka.held_bytes - machine.freed_bytes == sum(chunk.size for chunk in held.buffer)
