"""The boards about nodes: all that one looks at first, and replication between the nodes of a cluster."""

from typing import Final

from scripts.board_panels import NODES, Board, Panel, number, quantile, rate, top

OVERVIEW: Final = Board(
    "kcoord-overview",
    "kcoord: overview",
    (
        (
            "Now",
            (
                number("Nodes that answer", "count(kcoord_build_info)"),
                number("Groups", f"count(kcoord_group_state{{{NODES}}})"),
                number("Members", f"sum(kcoord_group_members{{{NODES}}})"),
                number("Records behind", f"sum(kcoord_group_sum_lag{{{NODES}}})"),
                number("Longest lag", f"max(kcoord_group_max_lag_seconds{{{NODES}}})", "s"),
                number("Groups not OK", f'count(kcoord_group_status{{status!="OK",{NODES}}})'),
            ),
        ),
        (
            "Groups",
            (
                Panel("Furthest behind, in records", ((top("max by (group) (kcoord_group_sum_lag)"), "{{group}}"),)),
                Panel(
                    "Furthest behind, in time",
                    ((top("max by (group) (kcoord_group_max_lag_seconds)"), "{{group}}"),),
                    "s",
                ),
                Panel(
                    "Events of groups",
                    ((rate("kcoord_group_events_total", by="kind") + " > 0", "{{kind}}"),),
                    "ops",
                    about="Why groups rebalanced is in `kcoord group events` and on the console.",
                ),
                Panel("Groups by state", (("count by (state) (kcoord_group_state)", "{{state}}"),)),
                Panel(
                    "Rebalances, 99th percentile",
                    ((quantile("kcoord_rebalance_duration_seconds"), "p99"),),
                    "s",
                    about="From a change until each member holds what it is to hold.",
                ),
                Panel("Largest groups in memory", ((top("kcoord_group_state_bytes"), "{{group}}"),), "bytes"),
            ),
        ),
        (
            "Work",
            (
                Panel("Commits", ((rate("kcoord_commits_total", by="result"), "{{result}}"),), "ops"),
                Panel(
                    "A commit, 50th and 99th percentile",
                    (
                        (quantile("kcoord_commit_duration_seconds", q=0.5), "p50"),
                        (quantile("kcoord_commit_duration_seconds"), "p99"),
                    ),
                    "s",
                ),
                Panel("Requests", ((rate("kcoord_request_seconds_count", by="api"), "{{api}}"),), "reqps"),
                Panel(
                    "Requests, 99th percentile",
                    ((quantile("kcoord_request_seconds", by="api"), "{{api}}"),),
                    "s",
                ),
                Panel(
                    "Requests refused",
                    ((rate("kcoord_requests_refused_total", by="api, error"), "{{api}} {{error}}"),),
                    "reqps",
                ),
                Panel(
                    "Offsets of owners that were replaced",
                    ((rate("kcoord_commits_fenced_total", by="reason"), "{{reason}}"),),
                    "ops",
                ),
            ),
        ),
        (
            "Nodes",
            (
                Panel(
                    "Event loop late, 99th percentile",
                    ((quantile("kcoord_event_loop_lag_seconds", by="instance"), "{{instance}}"),),
                    "s",
                ),
                Panel(
                    "A sync, 99th percentile",
                    ((quantile("kcoord_fsync_seconds", by="instance"), "{{instance}}"),),
                    "s",
                ),
                Panel(
                    "Processor",
                    ((rate("process_cpu_seconds_total", by="instance"), "{{instance}}"),),
                    "percentunit",
                ),
                Panel("Memory", ((f"process_resident_memory_bytes{{{NODES}}}", "{{instance}}"),), "bytes"),
                Panel("Connections", ((f"kcoord_connections{{{NODES}}}", "{{instance}}"),)),
                Panel(
                    "Room on the data disk",
                    ((f"kcoord_data_disk_free_bytes{{{NODES}}} / kcoord_data_disk_size_bytes", "{{instance}}"),),
                    "percentunit",
                ),
                Panel("Kafka answers", ((f"kcoord_kafka_reachable{{{NODES}}}", "{{instance}}"),)),
                Panel("Waits for the disk", ((f"kcoord_unwritten_bytes{{{NODES}}}", "{{instance}}"),), "bytes"),
                Panel(
                    "Warnings and errors in the log",
                    (
                        (
                            rate("kcoord_log_lines_total", f'level=~"warning|error|critical",{NODES}', "kind") + " > 0",
                            "{{kind}}",
                        ),
                    ),
                    "ops",
                ),
            ),
        ),
    ),
)

REPLICATION: Final = Board(
    "kcoord-replication",
    "kcoord: replication",
    (
        (
            "Now",
            (
                number("Shards without a leader", "max(kcoord_offline_shards)"),
                number("Shards under their minimum", f"sum(kcoord_under_min_isr_shards{{{NODES}}})"),
                number("Under-replicated shards", f"sum(kcoord_under_replicated_shards{{{NODES}}})"),
                number("Stalled shards", f"sum(kcoord_stalled_shards{{{NODES}}})"),
                number("Controllers", "sum(kcoord_active_controller)"),
                number("Live nodes", "max(kcoord_live_nodes)"),
            ),
        ),
        (
            "Shards",
            (
                Panel("Shards led", ((f"kcoord_led_shards{{{NODES}}}", "{{instance}}"),)),
                Panel(
                    "Smallest in-sync set",
                    ((f"min by (instance) (kcoord_shard_isr_size{{{NODES}}})", "{{instance}}"),),
                ),
                Panel(
                    "Decided and not committed",
                    (
                        (
                            f"sum by (instance) (kcoord_shard_log_end{{{NODES}}} - kcoord_shard_high_watermark)",
                            "{{instance}}",
                        ),
                    ),
                ),
                Panel(
                    "Records committed",
                    ((rate("kcoord_shard_high_watermark", by="instance"), "{{instance}}"),),
                    "rps",
                ),
                Panel(
                    "Elections",
                    (
                        (
                            f"sum by (kind) (increase(kcoord_elections_total{{{NODES}}}[$__rate_interval]))",
                            "{{kind}}",
                        ),
                    ),
                ),
                Panel(
                    "Changes of in-sync sets",
                    (
                        (
                            f"sum by (kind) (increase(kcoord_isr_changes_total{{{NODES}}}[$__rate_interval]))",
                            "{{kind}}",
                        ),
                    ),
                ),
            ),
        ),
        (
            "ZooKeeper and the controller",
            (
                Panel("Session", ((f"kcoord_zk_session_state{{{NODES}}}", "{{instance}} {{state}}"),)),
                Panel(
                    "A question to ZooKeeper, 99th percentile",
                    ((quantile("kcoord_zk_request_seconds", by="instance"), "{{instance}}"),),
                    "s",
                ),
                Panel("Controller", ((f"kcoord_active_controller{{{NODES}}}", "{{instance}}"),)),
                Panel(
                    "A sync, 99th percentile",
                    ((quantile("kcoord_fsync_seconds", by="instance"), "{{instance}}"),),
                    "s",
                ),
                Panel(
                    "Notices",
                    ((rate("kcoord_notices_total", by="kind") + " > 0", "{{kind}}"),),
                    "ops",
                    width=16,
                    about="docs/CLUSTER.md says what each means.",
                ),
            ),
        ),
    ),
)
