"""An effect leaves when what it was decided upon is committed and confirmed, and never when its epoch is over."""

from coordinator.core.shards.gates import Gates, Wait


def gates(*shards: int) -> Gates[str]:
    made: Gates[str] = Gates()
    for shard in shards or (0,):
        made.begin(shard, 1, 0)
    return made


def test_effect_waits_for_its_records_and_for_its_round() -> None:
    held = gates()
    held.park(0, ["a"], 5, 3)
    held.move(0, 1, 5, 2)
    assert held.release() == []
    held.move(0, 1, 5, 3)
    assert held.release() == ["a"]


def test_effect_that_waits_for_nothing_that_is_still_to_come_leaves_at_once() -> None:
    held = gates()
    held.move(0, 1, 5, 3)
    held.park(0, ["a"], 5, 3)
    assert held.release() == ["a"]


def test_a_gate_only_opens_and_what_is_said_of_another_epoch_does_not_move_it() -> None:
    held = gates()
    held.move(0, 1, 5, 3)
    held.move(0, 1, 2, 1)
    held.move(0, 2, 9, 9)
    held.move(7, 1, 9, 9)
    assert held.high_watermark(0) == 5
    held.park(0, ["a"], 6)
    assert held.release() == []


def test_order_is_kept_within_a_shard_and_shards_do_not_wait_for_each_other() -> None:
    held = gates(0, 1)
    for names, shard, end in ((["a"], 0, 2), (["b"], 1, 9), (["c", "d"], 0, 2), (["e"], 0, 3), (["f"], 0, 4)):
        held.park(shard, names, end)
    held.move(0, 1, 3)
    assert held.release() == ["a", "c", "d", "e"]
    assert len(held) == 2


def test_a_read_behind_a_round_keeps_what_came_after_it_waiting() -> None:
    held = gates()
    held.park(0, ["read"], 0, 1)
    held.park(0, ["commit"], 1)
    held.move(0, 1, 1)
    assert held.release() == []
    held.move(0, 1, 1, 1)
    assert held.release() == ["read", "commit"]


def test_effect_may_wait_for_several_shards() -> None:
    held = gates(0, 1)
    held.park_for_all("a", (Wait(0, 1), Wait(1, 1)))
    held.move(1, 1, 1)
    assert held.release() == []
    held.move(0, 1, 1)
    assert held.release() == ["a"]


def test_what_waits_for_a_dropped_shard_is_returned_and_never_said_wherever_it_waits() -> None:
    held = gates(0, 1)
    held.park(0, ["a"], 1)
    held.park_for_all("b", (Wait(1, 1), Wait(0, 1)))
    held.park(1, ["c"], 1)
    assert held.drop(0) == ["a", "b"]
    held.begin(0, 3, 9)
    held.move(1, 1, 1)
    assert held.release() == ["c"]


def test_a_shard_that_may_be_let_go_and_is_dropped_before_that_says_nothing() -> None:
    held = gates()
    held.park(0, ["a"], 1)
    held.move(0, 1, 1)
    assert held.drop(0) == ["a"]
    assert held.release() == []


def test_what_waits_for_records_that_will_never_be_is_returned_and_what_was_decided_before_them_is_said() -> None:
    held = gates(0, 1)
    held.park(0, ["a"], 3)
    held.park(0, ["b"], 4)
    held.park_for_all("c", (Wait(1, 1), Wait(0, 4)))
    held.park_for_all("d", (Wait(1, 1), Wait(0, 3)))
    assert held.cut(0, 3) == ["b", "c"]
    held.move(0, 1, 9)
    held.move(1, 1, 9)
    assert held.release() == ["a", "d"]


def test_replies_of_a_first_leadership_do_not_leave_in_the_second() -> None:
    held = gates()
    held.park(0, ["old"], 5)
    assert held.drop(0) == ["old"]
    held.begin(0, 3, 0)
    held.move(0, 3, 9, 9)
    assert held.release() == []


def test_a_leader_that_goes_on_keeps_what_waits_and_has_its_rounds_confirmed_anew() -> None:
    held = gates()
    held.move(0, 1, 5, 3)
    held.park(0, ["a"], 5, 4)
    held.begin(0, 2, 5)
    held.move(0, 1, 5, 4)
    assert held.release() == [], "that was confirmed in the epoch before"
    held.move(0, 2, 5, 4)
    assert held.release() == ["a"]


def test_what_is_dropped_with_all_is_never_released() -> None:
    held = gates()
    held.park(0, ["a"], 1)
    held.drop_all()
    held.move(0, 1, 1)
    assert held.release() == []


def test_a_decision_waits_for_the_next_round_while_there_are_others() -> None:
    held = gates()
    held.next_round = 4
    held.park(0, ["alone"], 0)
    held.ask_others(0, has_others=True)
    held.park(0, ["among others"], 0)
    assert held.release() == ["alone"]
    held.move(0, 1, 0, 3)
    assert held.release() == []
    held.move(0, 1, 0, 4)
    assert held.release() == ["among others"]


def test_a_leader_that_became_its_whole_set_needs_no_round_for_what_waits_and_one_again_for_what_comes() -> None:
    held = gates(0, 1)
    held.next_round = 4
    for shard in (0, 1):
        held.ask_others(shard, has_others=True)
    held.park(0, ["waits"], 0)
    held.park_for_all("waits for both", (Wait(1, 0, 4), Wait(0, 0, 4)))
    held.move(0, 1, 0, None)
    assert held.release() == ["waits"]
    held.move(1, 1, 0, 4)
    assert held.release() == ["waits for both"]
    held.park(0, ["comes"], 0)
    assert held.release() == []


def test_a_gate_knows_about_since_when_its_oldest_effect_waits() -> None:
    held = gates()
    assert held.waiting_since(0, 100) is None
    held.park(0, ["a"], 1)
    assert held.waiting_since(0, 200) == 200
    held.park(0, ["b"], 2)
    assert held.waiting_since(0, 300) == 200
    held.move(0, 1, 1)
    held.release()
    assert held.waiting_since(0, 400) == 300
    held.move(0, 1, 2)
    held.release()
    assert held.waiting_since(0, 500) is None


def test_a_gate_wants_the_greatest_round_that_is_waited_for_and_again_in_the_next_epoch() -> None:
    held = gates(0, 1)
    held.next_round = 4
    held.ask_others(0, has_others=True)
    held.park(0, ["a"], 1)
    held.park(1, ["b"], 1)
    assert held.wanted_rounds() == [(0, 4)]
    held.move(0, 1, 0, 4)
    assert held.wanted_rounds() == []
    held.begin(0, 2, 0)
    assert held.wanted_rounds() == [(0, 4)]
    held.move(0, 2, 1, 4)
    held.release()
    assert held.wanted_rounds() == []


def test_an_effect_that_comes_from_another_gate_with_an_older_round_hides_no_newer_one() -> None:
    held = gates(0, 1)
    for shard, next_round in ((0, 7), (1, 8)):
        held.next_round = next_round
        held.ask_others(shard, has_others=True)
    held.park(0, ["a"], 0)
    held.park_for_all("b", (Wait(1, 0, 3), Wait(0, 0, 5)))
    held.move(1, 1, 0, 3)
    held.release()
    held.move(0, 1, 0, 5)
    assert held.wanted_rounds() == [(0, 8)]
