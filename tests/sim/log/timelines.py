"""Rules about timelines: entries are numbered without gaps, within their bounds, and only the oldest ever go."""

from coordinator.core.groups.hard import records as r
from coordinator.core.groups.hard.tables.timeline import event_of
from coordinator.protocol.vocabulary import EventKind
from tests.sim.log.state import GroupModel, Log, Rule

KINDS = frozenset(EventKind)


def events_noted(log: Log, group: GroupModel, at: int, record: r.EventsNoted) -> None:
    kept = group.entries
    if record.dropped > len(kept):
        raise log.broken("timeline-gap", at, f"{record.dropped} entries go and there are {len(kept)}")
    del kept[: record.dropped]
    if record.first != group.last_sequence + 1 and kept:
        raise log.broken("timeline-gap", at, f"entry {record.first} comes after {group.last_sequence}")
    for sequence, data in enumerate(record.entries, record.first):
        event = event_of(sequence, data)
        if event.kind not in KINDS or not event.why:
            raise log.broken("timeline-words", at, f"what is that: {event}")
    kept += record.entries
    group.last_sequence = record.first + len(record.entries) - 1
    if len(kept) > log.limits.timeline_length:
        raise log.broken("timeline-bound", at, f"{len(kept)} entries are kept")


RULES: dict[type, Rule] = {r.EventsNoted: events_noted}
