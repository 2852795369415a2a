"""The program of a chaos run: one consumer, blocking or of asyncio, that writes what it got before it asks for more.

Each line of `lines` in its folder is one thing that happened, with monotonic times, which are the machine's: records
that a call returned, with the owner epochs they came under; partitions that were lost; the beginning of an orderly end.
The blocking one commits by pings, the asyncio one by requests. Its listener raises now and then. SIGUSR1 interrupts the
call that waits, SIGTERM ends it in order; whatever else ends it is a finding. Once it hears signals, `hears` in its
folder is its process's number.
"""

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from random import Random
from typing import Any

from kcoord import AsyncConsumer, Consumer, TopicPartition, errors

RAISES = 0.2
TIMEOUT_MS = 500
MOST_RECORDS = 100
WORK_S = 0.02

log = logging.getLogger("chaos")


class ListenerError(Exception):
    """The error of a listener that is wrong."""


PASSING = (
    ListenerError,
    errors.InterruptedPollError,
    errors.CoordinatorUnavailableError,
    errors.KafkaUnavailableError,
    errors.CommitRefusedError,
)
"""What may end a call while a run kills and stops what the consumer needs: the next call goes on."""


class Lines:
    """The file of what happened; a line is whole or not there, also when the process is killed."""

    def __init__(self, path: Path) -> None:
        self._hears = path.with_name("hears")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, what: str, **fields: Any) -> None:
        """Write one line."""
        os.write(self._file, json.dumps({"what": what, "pid": os.getpid(), **fields}).encode() + b"\n")

    def hears_signals(self) -> None:
        """Tell whoever sends signals that they are heard from now on."""
        self._hears.write_text(str(os.getpid()))


class Listener:
    """Writes down what is lost, and raises now and then when it hears what is revoked or assigned."""

    def __init__(self, lines: Lines, chance: Random) -> None:
        self._lines = lines
        self._chance = chance

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Raise now and then."""
        self._raise_now_and_then("revoked", partitions)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Raise now and then."""
        self._raise_now_and_then("assigned", partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Write them down."""
        self._lines.write("lost", partitions=sorted(one.partition for one in partitions))

    def _raise_now_and_then(self, news: str, partitions: Collection[TopicPartition]) -> None:
        if self._chance.random() < RAISES:
            raise ListenerError(f"{news}: {sorted(partitions)}")


def note(
    lines: Lines, consumer: Consumer | AsyncConsumer, began: float, found: Mapping[TopicPartition, list[Any]]
) -> None:
    """Write down what a call returned that began at a time."""
    if found:
        epochs = {one.partition: consumer.owner_epoch(one) for one in found}
        rows = [[row.partition, row.offset, row.value.decode()] for rows in found.values() for row in rows]
        lines.write("records", began=began, ended=time.monotonic(), epochs=epochs, rows=rows)


def run_blocking(settings: dict[str, Any], topic: str, lines: Lines, chance: Random) -> None:
    """Read until SIGTERM comes."""
    consumer = Consumer(**settings)
    asked: list[int] = []

    def end(number: int, _: object) -> None:
        asked.append(number)
        consumer.interrupt()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, lambda *_: consumer.interrupt())
    lines.hears_signals()
    consumer.subscribe([topic], listener=Listener(lines, chance))
    while not asked:
        try:
            began = time.monotonic()
            note(lines, consumer, began, consumer.poll(TIMEOUT_MS, MOST_RECORDS))
            time.sleep(WORK_S)
        except PASSING as error:
            log.info("%s: %s", type(error).__name__, error)
    lines.write("closing", at=time.monotonic())
    try:
        consumer.close(autocommit=True)
    except PASSING as error:
        log.info("at the end: %s", error)


async def run_asyncio(settings: dict[str, Any], topic: str, lines: Lines, chance: Random) -> None:
    """Read until SIGTERM comes."""
    consumer = AsyncConsumer(**settings, enable_auto_commit=False)
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: (over.set(), consumer.interrupt()))
    loop.add_signal_handler(signal.SIGUSR1, consumer.interrupt)
    lines.hears_signals()
    await consumer.start()
    consumer.subscribe([topic], listener=Listener(lines, chance))
    while not over.is_set():
        try:
            began = time.monotonic()
            note(lines, consumer, began, await consumer.getmany(timeout_ms=TIMEOUT_MS, max_records=MOST_RECORDS))
            await asyncio.sleep(WORK_S)
            await consumer.commit()
        except PASSING as error:
            log.info("%s: %s", type(error).__name__, error)
    lines.write("closing", at=time.monotonic())
    try:
        await consumer.commit()
        await consumer.stop()
    except PASSING as error:
        log.info("at the end: %s", error)


def main() -> None:
    """Run one of the two."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--coordinator", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--session-ms", type=int, required=True)
    parser.add_argument("--asyncio", action="store_true")
    arguments = parser.parse_args()
    settings: dict[str, Any] = {
        "coordinators": arguments.coordinator,
        "group_id": arguments.group,
        "client_id": arguments.folder.name,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": arguments.session_ms,
    }
    lines, chance = Lines(arguments.folder / "lines"), Random(os.getpid())
    if arguments.asyncio:
        asyncio.run(run_asyncio(settings, arguments.topic, lines, chance))
    else:
        run_blocking(settings, arguments.topic, lines, chance)


if __name__ == "__main__":
    main()
