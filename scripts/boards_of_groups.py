"""The boards about groups: one group and its lag, and the Spark queries that are its members."""

from typing import Final

from scripts.board_panels import GROUP, OF_GROUP, Board, Panel, number, quantile, rate, top

GROUP_BOARD: Final = Board(
    "kcoord-group",
    "kcoord: group",
    (
        (
            "Now",
            (
                number("Records behind", f"sum(kcoord_group_sum_lag{{{OF_GROUP}}})"),
                number("Longest lag", f"max(kcoord_group_max_lag_seconds{{{OF_GROUP}}})", "s"),
                number("Members", f"sum(kcoord_group_members{{{OF_GROUP}}})"),
                number("Group epoch", f"max(kcoord_group_epoch{{{OF_GROUP}}})"),
                number("In memory", f"sum(kcoord_group_state_bytes{{{OF_GROUP}}})", "bytes"),
                number("Furthest partition", f"max(kcoord_group_max_lag{{{OF_GROUP}}})"),
            ),
        ),
        (
            "Lag",
            (
                Panel(
                    "Records behind, by topic",
                    ((f"sum by (group, topic) (kcoord_group_lag{{{OF_GROUP}}})", "{{group}} {{topic}}"),),
                    width=12,
                ),
                Panel(
                    "Time behind, by topic",
                    ((f"max by (group, topic) (kcoord_group_lag_seconds{{{OF_GROUP}}})", "{{group}} {{topic}}"),),
                    "s",
                    width=12,
                ),
                Panel(
                    "Partitions that are furthest behind",
                    ((top(f"kcoord_group_lag{{{OF_GROUP}}}"), "{{topic}} {{partition}}"),),
                    width=12,
                ),
                Panel(
                    "Records committed",
                    (
                        (
                            f"sum by (group, topic) (rate(kcoord_group_committed_offset{{{OF_GROUP}}}"
                            "[$__rate_interval]))",
                            "{{group}} {{topic}}",
                        ),
                    ),
                    "rps",
                    width=12,
                    about="Resets of offsets show as peaks.",
                ),
            ),
        ),
        (
            "Membership",
            (
                Panel("Members", ((f"kcoord_group_members{{{OF_GROUP}}}", "{{group}}"),)),
                Panel("State", ((f"kcoord_group_state{{{OF_GROUP}}}", "{{group}} {{state}}"),)),
                Panel("Status, by Burrow's rules", ((f"kcoord_group_status{{{OF_GROUP}}}", "{{group}} {{status}}"),)),
                Panel(
                    "Changes of the group",
                    ((f"changes(kcoord_group_epoch{{{OF_GROUP}}}[$__rate_interval])", "{{group}}"),),
                    about="Each step of the group epoch is a change of members, topics or subscriptions.",
                ),
            ),
        ),
    ),
    (GROUP,),
)

SPARK: Final = Board(
    "kcoord-spark",
    "kcoord: Spark queries",
    (
        (
            "How far queries are",
            (
                Panel("Records behind", ((f"kcoord_group_sum_lag{{{OF_GROUP}}}", "{{group}}"),), width=12),
                Panel("Time behind", ((f"kcoord_group_max_lag_seconds{{{OF_GROUP}}}", "{{group}}"),), "s", width=12),
                Panel("Queries and other members", ((f"kcoord_group_members{{{OF_GROUP}}}", "{{group}}"),)),
                Panel(
                    "Records committed",
                    (
                        (
                            rate("kcoord_group_committed_offset", OF_GROUP, "group"),
                            "{{group}}",
                        ),
                    ),
                    "rps",
                ),
                Panel(
                    "Groups that stand still",
                    ((f'kcoord_group_status{{status!="OK",{OF_GROUP}}}', "{{group}} {{status}}"),),
                ),
            ),
        ),
        (
            "Micro-batches at the coordinator, of all groups",
            (
                Panel(
                    "Micro-batches",
                    ((rate("kcoord_request_seconds_count", 'api="Advance"', "instance"), "{{instance}}"),),
                    "ops",
                ),
                Panel(
                    "Finish one and claim the next, 50th and 99th percentile",
                    (
                        (quantile("kcoord_request_seconds", q=0.5, labels='api="Advance"'), "p50"),
                        (quantile("kcoord_request_seconds", labels='api="Advance"'), "p99"),
                    ),
                    "s",
                ),
                Panel(
                    "Hand-over of partitions",
                    (
                        (
                            rate(
                                "kcoord_group_events_total",
                                'kind=~"granted|released|taken-over|taken-late|claim-.*"',
                                "kind",
                            ),
                            "{{kind}}",
                        ),
                    ),
                    "ops",
                    about="taken-late: a micro-batch outlasted the rebalance time-out, and may come twice.",
                ),
                Panel(
                    "Queries that come and go",
                    (
                        (
                            rate("kcoord_group_events_total", 'kind=~"member-.*"', "kind"),
                            "{{kind}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Starts that Kafka does not have, or that are not known",
                    (
                        (
                            rate("kcoord_group_events_total", 'kind=~"out-of-range|start-unresolved"', "kind"),
                            "{{kind}}",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Commits of queries that were replaced",
                    ((rate("kcoord_commits_fenced_total", "", "reason"), "{{reason}}"),),
                    "ops",
                ),
            ),
        ),
    ),
    (GROUP,),
)
