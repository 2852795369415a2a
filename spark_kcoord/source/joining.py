"""The way of a read into its group: from checked options to a member, a Kafka look-up and a session of micro-batches.

Runs where the member lives: in the stream reader's process beside the Spark driver, or in the user's own program for a
batch read as a member. Everything that needs the coordinator's protocol is behind this room.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from coordinator.protocol.text.addresses import Address, format_address
from coordinator.protocol.vocabulary import Handover, IsolationLevel
from spark_kcoord.fetch.absences import ABSENCE_S
from spark_kcoord.fetch.offsets import TRY_TIMEOUT_S, KafkaLookup
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.member.client import MemberClient, MemberSettings
from spark_kcoord.microbatch.query_member import QueryMember
from spark_kcoord.microbatch.read_only.member import ReadOnlyMember
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.unread.batches import warn_where_group_is_known
from spark_kcoord.options.source_options import SourceOptions
from spark_kcoord.source.recent_ends import RecentEnds
from spark_kcoord.source.resolve import (
    ends_asked_for,
    must_be_same_cluster,
    must_name_all,
    open_lookup,
    partitions_of,
    subscribed_topics,
)
from spark_kcoord.source.starting_offsets import stream_starts

__all__ = ["FrozenEnds", "freeze_ends", "join_group", "new_member", "options_at"]

_log = logging.getLogger(__name__)

UNNAMED: Final = "kcoord-spark"
"""The client id of a member whose application has no name that can be known."""

JOIN_TIMEOUT_MS: Final = 5_000
"""The longest of the first join; with Spark's own start a wrong address is told within 10 s."""


@dataclass(frozen=True, slots=True)
class FrozenEnds:
    """Up to where every partition is read in a run that ends, and in which Kafka cluster."""

    ends: Mapping[TopicPartition, int]
    cluster_id: str | None


def options_at(options: SourceOptions, nodes: Iterable[Address]) -> SourceOptions:
    """Return options with which these nodes are asked, in this order, instead of those that they name."""
    return replace(options, coordinators=tuple(dict.fromkeys(map(format_address, nodes))))


def _also_at(options: SourceOptions, nodes: Iterable[Address]) -> SourceOptions:
    return options_at(options, (*options.coordinators_at, *nodes))


def freeze_ends(options: SourceOptions, nodes: Iterable[Address] = ()) -> FrozenEnds:
    """Return the end of every partition now, or before it where an ending option says so.

    `nodes` are coordinators that a checkpoint remembers besides those that the options name. Which partitions are the
    member's is not known here. Raises OptionError for JSON ends of other partitions.
    """
    with closing(open_lookup(_also_at(options, nodes))) as lookup:
        topics = subscribed_topics(lookup, options.subscription, may_be_absent=options.wait_for_topics)
        must_name_all(options.ending, topics)
        latest = lookup.end_offsets(partitions_of(topics))
        return FrozenEnds(ends_asked_for(options.ending, lookup, latest), lookup.cluster_id)


def new_member(
    options: SourceOptions,
    first: StreamOffset,
    *,
    is_finished: bool,
    application: str | None,
    name: str | None = None,
    plans_itself: bool = True,
) -> MemberClient:
    """Return the member that a stream offset tells of, or a new one; it has not joined yet.

    `is_finished` says that the micro-batch of that offset is done, `application` which Spark application this is,
    `name` what that is called, `plans_itself` that nobody but this member says that its claims are about to be read.
    """
    starts = stream_starts(_also_at(options, first.nodes), is_new=not first.member)
    settings = MemberSettings(
        coordinators=options.coordinators_at,
        group_id=options.group,
        topics=options.subscription.topics,
        pattern=options.subscription.pattern,
        partitions=options.subscription.assigned,
        exclusions=options.subscription.exclusions,
        client_id=options.client_id or name or UNNAMED,
        instance_id=options.instance_id,
        streams=options.streams or 1,
        assignors=options.assignors,
        session_timeout_ms=options.session_timeout_ms,
        rebalance_timeout_ms=options.rebalance_timeout_ms,
        reset_policy=starts.policy,
        hints=starts.hints,
        wait_for_topics=options.wait_for_topics,
        coordinator_timeout_ms=options.coordinator_timeout_ms,
        handover=Handover(options.handover),
        claim_timeout_ms=options.claim_timeout_ms,
        ping_interval_ms=options.ping_interval_ms,
        isolation_level=IsolationLevel(options.kafka.isolation_level),
        join_timeout_ms=JOIN_TIMEOUT_MS,
        application=application,
        shares_application=options.shares_application,
        commits=options.is_committing,
        plans_itself=plans_itself,
    )
    return MemberClient(
        settings,
        member_id=first.member,
        claims=first.claims if options.is_committing else (),
        checkpoint_hints=first.hints(is_finished=is_finished),
        nodes=first.nodes,
        log=first.log,
    )


def join_group(
    options: SourceOptions, client: MemberClient, first: StreamOffset, frozen: FrozenEnds | None
) -> tuple[QueryMember, tuple[str, ...]]:
    """Let a member join and return its session and the Kafka servers; raises KcoordError."""
    if options.mode == "stream" and not first.member:
        warn_where_group_is_known(options)
    client.start()
    joined = client.join()
    first.must_belong_to(cluster=joined.kafka_cluster_id, group=options.group)
    servers = options.kafka.servers or tuple(joined.kafka_bootstrap)
    must_be_same_cluster(joined.kafka_cluster_id, frozen.cluster_id if frozen else None, servers)
    session = QueryMember(
        client if options.is_committing else ReadOnlyMember(client, first),
        RecentEnds(KafkaLookup(options.kafka_at(servers), absence_s=ABSENCE_S), joined.kafka_cluster_id, servers),
        joined,
        group_id=options.group,
        fail_on_data_loss=options.fail_on_data_loss,
        rebalance_timeout_s=options.rebalance_timeout_ms / 1000,
        kafka_timeout_s=options.fetch_timeout_ms / 1000,
        first_kafka_timeout_s=options.offset_retries * (TRY_TIMEOUT_S + options.offset_retry_interval_ms / 1000),
        is_committing=options.is_committing,
        reads=options.subscription.reads,
    )
    if frozen is not None:
        session.freeze_ends(frozen.ends)
    _log.info("joined group %s as member %s (process %d)", options.group, joined.member_id, os.getpid())
    return session, servers
