import random
from collections import Counter

import pytest

from coordinator.core.security.addresses import address_of
from coordinator.core.security.admission import (
    MOST_ADDRESSES_OF_MEMBERS,
    REMEMBERED_MS,
    SPARED_MS,
    Admission,
    AdmissionLimits,
    Admitted,
    Refusal,
)
from coordinator.core.token_buckets import Rate

HOME, AWAY, ELSEWHERE = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def admission(
    *, connections: int = 10, of_address: int = 10, half_open: int = 10, kept: int = 0, failures: int = 5
) -> Admission[int]:
    return Admission(AdmissionLimits(connections, of_address, half_open, kept, Rate(failures, 1)))


def why(verdict: Admitted[int] | Refusal) -> str:
    return verdict.setting if isinstance(verdict, Refusal) else ""


def test_one_address_has_so_many_connections_and_another_is_let_in_beside_it() -> None:
    door = admission(of_address=2)
    assert [why(door.admit(number, AWAY, 0)) for number in range(3)] == ["", "", "server.connections_per_address"]
    assert why(door.admit(3, HOME, 0)) == ""
    assert door.most_of_an_address == 2
    door.gone(0, AWAY, 0)
    assert why(door.admit(4, AWAY, 0)) == ""


def test_no_more_than_all_are_let_in() -> None:
    door = admission(connections=2)
    assert [why(door.admit(number, f"10.0.1.{number}", 0)) for number in range(3)] == [
        "",
        "",
        "server.max_connections",
    ]


def test_the_last_places_are_for_addresses_from_which_members_have_come() -> None:
    door = admission(connections=4, kept=2)
    door.admit(0, HOME, 0)
    door.known(0, HOME)
    door.member_came(HOME, 0)
    door.admit(1, AWAY, 0)
    assert why(door.admit(2, AWAY, 0)) == "server.kept_for_members_percent"
    assert why(door.admit(3, HOME, 0)) == ""
    door.gone(0, HOME, 0)
    door.gone(3, HOME, 1_000)
    door.admit(4, ELSEWHERE, 1_000)
    assert why(door.admit(5, HOME, REMEMBERED_MS)) == "", "it is remembered after its last connection is gone"
    door.gone(5, HOME, REMEMBERED_MS)
    assert why(door.admit(6, HOME, 2 * REMEMBERED_MS)) == "server.kept_for_members_percent", "and not for ever"


def test_a_newcomer_that_says_who_it_is_gets_through_a_flood_of_silent_ones() -> None:
    door = admission(half_open=3)
    for number in range(3):
        door.admit(number, AWAY, 0)
    assert door.admit(3, HOME, 0) == Admitted(0), "the oldest of the address that has the most gives way"
    door.known(3, HOME)
    assert door.half_open_count == 2
    assert door.admit(4, AWAY, 0) == Admitted(None)
    assert why(door.admit(5, AWAY, SPARED_MS - 1)) == "server.half_open_max", "a crowd is left the time to speak"
    assert door.admit(5, AWAY, SPARED_MS) == Admitted(1), "a flood pushes out its own"
    door.gone(0, AWAY, 0)
    door.gone(1, AWAY, 0)
    assert (door.count, door.half_open_count) == (4, 3)


def test_a_known_connection_never_gives_way() -> None:
    door = admission(half_open=1)
    door.admit(0, HOME, 0)
    door.known(0, HOME)
    door.admit(1, AWAY, 0)
    assert door.admit(2, AWAY, SPARED_MS) == Admitted(1)


def test_a_crowd_from_a_few_addresses_does_not_push_itself_out() -> None:
    door = admission(connections=1_000, of_address=1_000, half_open=30)
    for number in range(300):
        door.admit(number, (HOME, AWAY, ELSEWHERE)[number % 3], number)
    for number in range(30):
        door.known(number, (HOME, AWAY, ELSEWHERE)[number % 3])
    assert (door.count, door.half_open_count) == (30, 0), "whoever was let in first was left in peace"


def test_one_job_that_always_fails_does_not_shut_out_the_members_behind_its_address() -> None:
    door = admission(failures=3)
    door.member_came(AWAY, 0)
    for _ in range(29):
        door.failed(AWAY, 0)
    assert why(door.admit(0, AWAY, 0)) == ""
    door.failed(AWAY, 0)
    assert why(door.admit(1, AWAY, 0)) == "server.failures_burst", "nobody tries passwords without end"
    assert why(door.admit(2, AWAY, 100)) == ""


def test_an_address_from_which_too_much_fails_has_to_wait_and_others_do_not() -> None:
    door = admission(failures=3)
    for _ in range(3):
        assert why(door.admit(0, AWAY, 0)) == ""
        door.failed(AWAY, 0)
        door.gone(0, AWAY, 0)
    assert why(door.admit(1, AWAY, 0)) == "server.failures_burst"
    assert why(door.admit(2, HOME, 0)) == ""
    assert why(door.admit(3, AWAY, 1_000)) == ""
    assert door.failing_addresses == 1


def test_what_is_counted_is_gone_when_the_connections_are() -> None:
    door = admission()
    for number in range(4):
        door.admit(number, f"10.0.0.{number}", 0)
    door.known(2, "10.0.0.2")
    for number in range(4):
        door.gone(number, f"10.0.0.{number}", 0)
    assert (door.count, door.half_open_count, door.most_of_an_address) == (0, 0, 0)


def test_addresses_of_members_are_remembered_up_to_a_bound() -> None:
    door = admission(connections=1, kept=1)
    door.member_came(HOME, 0)
    for number in range(MOST_ADDRESSES_OF_MEMBERS):
        door.member_came(f"name-{number}", 0)
    assert why(door.admit(0, HOME, 0)) == "server.kept_for_members_percent"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::/64"),
        ("?", "?"),
        ("not:an:address", "not:an:address"),
    ],
)
def test_a_host_is_counted_under_its_address_or_its_network(host: str, address: str) -> None:
    assert address_of(host) == address


@pytest.mark.parametrize("seed", range(5))
def test_the_one_that_gives_way_is_of_an_address_that_has_the_most_whoever_came_and_went(seed: int) -> None:
    """With each newcomer of a flood all addresses were looked at: 0.8 ms for 5,000, as one network may have."""
    dice, door = random.Random(seed), admission(connections=10_000, of_address=10_000, half_open=20)
    half_open: dict[int, str] = {}
    for number in range(500):
        host = f"10.0.0.{dice.randrange(8)}"
        counts = Counter(half_open.values())
        verdict = door.admit(number, host, number * SPARED_MS)
        assert isinstance(verdict, Admitted)
        if len(half_open) == 20:
            assert verdict.gives_way is not None
            assert counts[half_open.pop(verdict.gives_way)] == max(counts.values())
        half_open[number] = host
        while half_open and dice.random() < 0.4:
            known = dice.choice(list(half_open))
            door.known(known, half_open.pop(known))
        assert door.half_open_count == len(half_open)
