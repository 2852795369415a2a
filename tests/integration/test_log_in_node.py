"""A real node where clients log in over TLS: who is let in, what each may do, and how a bad log-in ends."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from coordinator.client.request import LogInFailedError
from coordinator.protocol.messages import ListGroupsResponse
from kcoord import Consumer
from spark_kcoord.errors import KcoordError
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.polled import polled
from tests.helpers.processes import eventually
from tests.helpers.secured_node import OTHER_KEY, PASSWORD, PATIENCE_S, Secured, secured, signed

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka

pytestmark = pytest.mark.kafka


def consumer(of: Secured, options: dict[str, str], **more: Any) -> Consumer:
    return Consumer(
        coordinators=of.address,
        group_id="team",
        auto_offset_reset="earliest",
        coordinator_security=options,
        **more,
    )


def test_clients_log_in_by_password_and_token_and_have_the_rights_of_who_they_are(
    kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 20)
    rules = (
        f"allow User:alice read group literal team\nallow User:alice read topic literal {name}\n"
        f"allow User:ci read group literal team\nallow User:ci describe topic literal {name}\n"
        "allow User:robot describe group literal team\n"
    )
    with secured(tmp_path, kafka.bootstrap_servers, rules) as on:
        with consumer(on, on.by_password(), group_instance_id="one") as alices:
            alices.subscribe([name])
            read: list[int] = []
            assert eventually(lambda: read.extend(int(row.value) for row in polled(alices, 100)) or len(read) == 20)
            alices.commit()

            token_file = tmp_path / "token"
            token_file.write_text(signed() + "\n")
            by_file = on.trusting | {"kcoord.auth.token.file": str(token_file)}
            described = on.kcoord(by_file, "group", "describe", "team")
            assert (described.returncode, name in described.stdout) == (0, True), described.stderr
            denied = on.kcoord(by_file, "group", "pause", "team", "--execute")
            assert (denied.returncode, "GROUP_AUTHORIZATION_FAILED" in denied.stderr) == (5, True), denied.stderr

            # The token of another may read in the group, and not take alice's place in it.
            with consumer(on, on.by_token(on.token), group_instance_id="one") as others:
                others.subscribe([name])
                with pytest.raises(KcoordError, match="GROUP_AUTHORIZATION_FAILED"):
                    others.poll(PATIENCE_S * 1000)
        assert on.node.stop() == 0
        assert PASSWORD not in on.node.said
        assert on.token not in on.node.said


def test_each_bad_log_in_is_refused_within_a_second_with_the_reason_in_the_log(tmp_path: Path) -> None:
    with secured(tmp_path, "127.0.0.1:1", "allow User:robot describe group prefix x\n") as on:
        assert on.ask(on.by_token(signed())) == ListGroupsResponse()
        not_fit = "user name and password do not fit"
        bad = [
            (on.by_password(password="wrong"), not_fit, "the password of user 'alice' is another one"),
            (on.by_password("bob"), not_fit, "'bob' is no user with SCRAM-SHA-512"),
            (on.by_token(signed(exp=1_000_000_000)), "it has expired", "it has expired"),
            (on.by_token(signed(aud="others")), "it is for another audience", "it is for another audience"),
            (on.by_token(signed(OTHER_KEY)), "its signature is not good", "its signature is not good"),
            (on.by_token(on.token + "x"), "it is nobody's", "it is nobody's"),
        ]
        refused = 0
        for options, told, logged in bad:
            took_s, why = refused_in_s(on, options)
            refused += 1
            assert told in why
            assert took_s >= 0.1
            assert not [secret for secret in options.values() if len(secret) > 8 and secret in why]
            on.node.wait_until_it_says(logged)
            if took_s >= 1.0:  # a machine that stood still meanwhile does not do so every time
                took_s = min(took_s, refused_in_s(on, options)[0])
                refused += 1
            assert took_s < 1.0 or took_s < 20 * quick_s(on), f"{took_s} s"
        began_s = time.monotonic()
        with consumer(on, on.by_password(password="wrong")) as refused_one:
            refused_one.subscribe(["nothing"])
            with pytest.raises(KcoordError, match=not_fit):
                refused_one.poll(PATIENCE_S * 1000)
        assert time.monotonic() - began_s < PATIENCE_S / 2
        assert on.node.stop() == 0, "by now it has written what it said"
        assert on.node.said.count("log-in-refused") == refused + 1
        assert PASSWORD not in on.node.said


def refused_in_s(on: Secured, options: dict[str, str]) -> tuple[float, str]:
    """Return how long it took until a log-in was refused, and what was told."""
    began_s = time.monotonic()
    with pytest.raises(LogInFailedError) as refused:
        on.ask(options)
    return time.monotonic() - began_s, str(refused.value)


def quick_s(on: Secured) -> float:
    """Return how long a good log-in takes on this machine now."""
    began_s = time.monotonic()
    on.ask(on.by_token(signed()))
    return time.monotonic() - began_s


def test_a_connection_ends_with_its_token_and_the_client_comes_back_with_the_next_one(
    kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=1)
    rules = f"allow User:robot read group literal team\nallow User:robot read topic literal {name}\n"
    with secured(tmp_path, kafka.bootstrap_servers, rules) as on:
        token_file = tmp_path / "token"
        token_file.write_text(signed(exp=int(time.time()) - 2))  # good for the 5 s that clocks may differ
        with consumer(on, on.trusting | {"kcoord.auth.token.file": str(token_file)}) as robots:
            robots.subscribe([name])

            def is_member() -> bool:
                robots.poll(100)
                listed = on.ask(on.by_token(signed()))
                return isinstance(listed, ListGroupsResponse) and bool(listed.groups)

            # What comes after it has logged in may take longer than the token is good.
            assert eventually(is_member)
            token_file.write_text(signed())
            assert eventually(lambda: robots.poll(100) is not None and len(robots.assignment()) == 1)
            on.node.wait_until_it_says("log-in-ended")
            produce_numbers(kafka.bootstrap_servers, name, 1, 0, 5)
            read: list[int] = []
            assert eventually(lambda: read.extend(int(row.value) for row in polled(robots, 100)) or len(read) == 5)
            robots.commit()
        assert "log-in-refused" not in on.node.said
