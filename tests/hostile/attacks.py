"""Attacks on a node, each in a process of its own: `python -m tests.hostile.attacks NAME ADDRESS COUNT SEED`.

An attack says `ready` once it is at its full size, ends by itself when it is done, or at a line on its standard input
where it would go on for ever, and prints what became of it as one line of JSON. None of them is a member of the good
client's group or knows it.
"""

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress

from coordinator.protocol.codec import encode_message
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.messages import CommitOffsets, FetchOffsets, ListGroups, RegisterConsumer
from coordinator.protocol.parts import ResetPolicy, Subscription
from tests.helpers.wild_requests import Known, WildRequests
from tests.hostile.crowd import Crowd, stay
from tests.hostile.stranger import Stranger, connected, raise_file_limit

Found = dict[str, int]
ADDRESSES = 100
"""Addresses of a lane of frames; one that is refused for its failures rests while others are used."""
AT_ONCE = 40
"""Lanes, each of which has one connection at a time."""
FRAMES_AT_ONCE = 50
PATIENCE_S = 0.5
"""The time for which answers are waited for, some of which wait for Kafka or for another connection."""
POOL = 5_000
METADATA_PARTITIONS = 1_400
"""Their metadata take five megabytes and more of state."""
METADATA_AT_ONCE = 200
TOPIC = "hostile"
_GONE = (OSError, EOFError)
_WORD_EVERY_S = 5.0


def _wait_for_the_end(ended: threading.Event) -> None:
    sys.stdin.readline()
    ended.set()


def tell(word: str) -> None:
    """Say something to whoever runs this."""
    print(word, flush=True)


def registration(group_id: str, member_id: str, *assignors: str) -> RegisterConsumer:
    """Return a registration like any other."""
    return RegisterConsumer(
        group_id,
        member_id,
        f"process-of-{member_id}",
        Subscription((TOPIC,)),
        client_id="hostile",
        pid=1,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        assignors=assignors or ("sticky",),
        reset_policy=ResetPolicy("earliest"),
    )


def crowd(address: str, count: int, _seed: int) -> Found:
    """Hold `count` idle connections, a tenth of it half-open ones and a fifth tricklers, until told to end."""
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended,), daemon=True).start()
    everybody = Crowd(address, {"idle": count, "half-open": count // 10, "trickler": count // 5})
    try:
        stay(everybody, ended.is_set, tell)
        return {f"closed_{kind}": number for kind, number in everybody.closed.items()} | {"live": everybody.live}
    finally:
        everybody.close()


def frames(address: str, count: int, seed: int) -> Found:
    """Send so many frames: garbage before a hello, requests of every verb with wild values, and bent ones."""
    dice = random.Random(seed)
    wild = WildRequests(dice, Known([f"hostile-{number}" for number in range(6)], {TOPIC: 4}))
    pool = [encode_message(wild.any(is_member=dice.random() < 0.3)) for _ in range(POOL)]
    sent: Counter[str] = Counter()
    threads = [
        threading.Thread(target=_send_frames, args=(address, count, random.Random(seed + at), pool, sent, at))
        for at in range(AT_ONCE)
    ]
    tell("ready")
    for thread in threads:
        thread.start()
    next_word_s = time.monotonic() + _WORD_EVERY_S
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)
            if time.monotonic() > next_word_s:
                next_word_s += _WORD_EVERY_S
                tell(f"{sent['frames']} of {count} frames")
    return dict(sent)


def _send_frames(
    address: str, count: int, dice: random.Random, pool: list[bytes], sent: Counter[str], lane: int
) -> None:
    """Send frames on one connection after another until enough are sent, from addresses of this lane's own."""
    turn = 0
    while sent["frames"] < count:
        turn += 1
        number = 1_000 + lane * ADDRESSES + turn % ADDRESSES
        try:
            if dice.random() < 0.1:
                with connected(address, number) as stranger:
                    stranger.sendall(dice.randbytes(dice.randrange(4, 200)))
                    sent["frames"] += 1
                    sent["strange"] += 1
                    stranger.recv(100)
                continue
            with Stranger(address, number) as talker:
                talker.greet()
                talker.socket.settimeout(PATIENCE_S)
                for _ in range(20):
                    talker.socket.sendall(_some_frames(dice, pool))
                    sent["frames"] += FRAMES_AT_ONCE
                    _take_answers(talker)
        except TimeoutError:
            sent["left"] += 1
        except _GONE:
            sent["closed"] += 1


def _some_frames(dice: random.Random, pool: list[bytes]) -> bytes:
    data = bytearray()
    for number in range(1, FRAMES_AT_ONCE + 1):
        data += encode_envelope(number, dice.choice(pool))
    if dice.random() < 0.02:
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _take_answers(stranger: Stranger) -> None:
    """Read answers until all are there, by their lengths alone; pushes have the correlation id 0."""
    left, held = FRAMES_AT_ONCE, b""
    while left:
        data = stranger.socket.recv(1 << 18)
        if not data:
            raise EOFError
        held += data
        at = 0
        while len(held) - at >= 8 and len(held) - at - 4 >= (length := int.from_bytes(held[at : at + 4], "big")):
            left -= held[at + 4 : at + 8] != b"\0\0\0\0"
            at += 4 + length
        held = held[at:]


def registrations(address: str, count: int, _seed: int) -> Found:
    """Register so many new members, each of which goes at once."""
    answers: Counter[str] = Counter()
    tell("ready")
    for number in range(count):
        with suppress(*_GONE), Stranger(address, 2_000) as stranger:
            answers[stranger.ask(registration("hostile-come-and-go", f"m{number}")).error.name] += 1
    return dict(answers)


def groups(address: str, count: int, _seed: int) -> Found:
    """Make so many groups by commits, from one address."""
    answers: Counter[str] = Counter()
    offsets = in_columns([OffsetToCommit(TOPIC, 0, 1)])
    tell("ready")
    with Stranger(address, 2_001) as stranger:
        for number in range(count):
            answers[stranger.ask(CommitOffsets(f"hostile-group-{number}", offsets)).error.name] += 1
    return dict(answers)


def metadata(address: str, count: int, _seed: int) -> Found:
    """Commit so many offsets with the longest metadata there may be, over and over to the same partitions."""
    answers: Counter[str] = Counter()
    tell("ready")
    with Stranger(address, 2_002) as stranger:
        for begin in range(0, count, METADATA_AT_ONCE):
            first = begin % METADATA_PARTITIONS
            offsets = in_columns(
                OffsetToCommit("m", first + at, begin, metadata="m" * 4_000) for at in range(METADATA_AT_ONCE)
            )
            answer = stranger.ask(CommitOffsets("hostile-metadata", offsets))
            answers["accepted"] += answer.accepted
            answers["refused"] += len(answer.refused)
    return dict(answers)


def unread(address: str, count: int, _seed: int) -> Found:
    """Ask for the offsets of a large group on so many connections, twice ten times, and read nothing."""
    answers: Counter[str] = Counter()
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended,), daemon=True).start()
    with ExitStack() as opened:
        strangers = []
        for number in range(count):
            with suppress(*_GONE):
                stranger = opened.enter_context(Stranger(address, 2_100 + number))
                stranger.greet()
                stranger.send([FetchOffsets("hostile-metadata"), ListGroups()] * 10)
                strangers.append(stranger)
        tell("ready")
        answers["asked"] = len(strangers)
        ended.wait()
        for stranger in strangers:
            stranger.socket.setblocking(False)
            with suppress(BlockingIOError):
                try:
                    while stranger.socket.recv(1 << 20):
                        pass
                    answers["closed"] += 1
                except ConnectionError:
                    answers["closed"] += 1
    return dict(answers)


def assignors(address: str, count: int, _seed: int) -> Found:
    """Register so many members that name assignors of a million letters, and very many of them."""
    answers: Counter[str] = Counter()
    tell("ready")
    for number in range(count):
        names = ("a" * 1_000_000,) if number % 2 else tuple(f"{each}" + "a" * 200 for each in range(4_000))
        with suppress(*_GONE), Stranger(address, 2_200 + number % 5) as stranger:
            answer = stranger.ask(registration("hostile-assignors", f"m{number}", *names, "sticky"))
            answers[answer.error.name] += 1
    return dict(answers)


def connections(address: str, count: int, _seed: int) -> Found:
    """Connect so many times, and go at once."""
    done: Counter[str] = Counter()
    tell("ready")
    for number in range(count):
        try:
            stranger = Stranger(address, 2_300 + number % 50)
        except OSError:
            done["refused"] += 1
            continue
        done["came"] += 1
        stranger.go()
    return dict(done)


ATTACKS: dict[str, Callable[[str, int, int], Found]] = {
    each.__name__: each for each in (crowd, frames, registrations, groups, metadata, unread, assignors, connections)
}


def main() -> None:
    """Run the attack that is named."""
    name, address, count, seed = sys.argv[1:]
    raise_file_limit()
    os.nice(10)
    print(json.dumps(ATTACKS[name](address, int(count), int(seed))), flush=True)


if __name__ == "__main__":
    main()
