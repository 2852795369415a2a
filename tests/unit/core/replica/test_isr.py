"""What may be in ZooKeeper is known as far as the ends of writes tell."""

from coordinator.core.replica.isr import Isr

ISR = Isr((1, 2, 3), version=7)


def test_maximal_isr_is_everything_that_may_be_true_while_a_write_is_under_way() -> None:
    shrinking = ISR.changing_to((1, 2), ())
    assert (shrinking.maximal, shrinking.smallest()) == ((1, 2, 3), 2)
    growing = shrinking.done().changing_to((1, 2, 3), ((3, 5),))
    assert (growing.members, growing.maximal, growing.version) == ((1, 2), (1, 2, 3), 8)


def test_a_write_that_met_another_version_is_settled_by_a_later_version_alone() -> None:
    refused = ISR.changing_to((1, 2), ()).refused()
    assert refused.maximal == (1, 2, 3)
    assert not refused.is_settled_by(7), "the write before it may still arrive at that version"
    assert refused.is_settled_by(8)
    assert refused.seen(8, (2, 1)) == Isr((1, 2), 8, requests=1)


def test_a_write_whose_end_was_lost_is_made_again_under_the_version_it_had() -> None:
    again = ISR.changing_to((1, 2), ()).asked_again()
    assert again.pending is not None
    assert (again.pending.members, again.pending.request, again.version) == ((1, 2), 2, 7)
    assert again.done() == Isr((1, 2), 8, requests=2)
