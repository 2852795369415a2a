"""Makes the Grafana boards of deploy/grafana: `boards: OK boards=4 panels=N`, or what differs with `--check`.

The boards are data here and JSON there, so that a panel is a line and no board forgets its data source. They are made
for Prometheus under the variable `datasource`; names are those of docs/OPERATIONS.md.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "deploy" / "grafana"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_QUANTILE: Final = "histogram_quantile({q}, sum by (le{by}) (rate({name}_bucket{{{labels}}}[$__rate_interval])))"
_NODES: Final = 'instance=~"$instance"'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its title, what it asks for with a legend each, the unit, its kind, and its width of 24."""

    title: str
    asks: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    about: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """One board: its name in an address, its title, and rows of panels under their headings."""

    uid: str
    title: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str, str], ...] = (("instance", "Node", "label_values(kcoord_build_info, instance)"),)


def quantile(name: str, *, q: float = 0.99, by: str = "", labels: str = _NODES) -> str:
    """Return the question for a quantile of a histogram over the interval that is shown."""
    return _QUANTILE.format(name=name, q=q, by=f", {by}" if by else "", labels=labels)


def _number(title: str, expr: str, unit: str = "short", width: int = 4, about: str = "") -> Panel:
    return Panel(title, ((expr, ""),), unit, "stat", width, 4, about)


def _rate(name: str, labels: str = _NODES, by: str = "") -> str:
    return f"sum{f' by ({by}) ' if by else ''}(rate({name}{{{labels}}}[$__rate_interval]))"


def _top(expr: str) -> str:
    return f"topk(10, {expr})"


_GROUP: Final = ("group", "Group", "label_values(kcoord_group_state, group)")
_NODE: Final = ("instance", "Node", "label_values(kcoord_build_info, instance)")
_OF_GROUP: Final = 'group=~"$group"'

BOARDS: Final = (
    Board(
        "kcoord-overview",
        "kcoord: overview",
        (
            (
                "Now",
                (
                    _number("Nodes that answer", "count(kcoord_build_info)"),
                    _number("Groups", f"count(kcoord_group_state{{{_NODES}}})"),
                    _number("Members", f"sum(kcoord_group_members{{{_NODES}}})"),
                    _number("Records behind", f"sum(kcoord_group_sum_lag{{{_NODES}}})"),
                    _number("Longest lag", f"max(kcoord_group_max_lag_seconds{{{_NODES}}})", "s"),
                    _number("Groups not OK", f'count(kcoord_group_status{{status!="OK",{_NODES}}})'),
                ),
            ),
            (
                "Groups",
                (
                    Panel(
                        "Furthest behind, in records", ((_top("max by (group) (kcoord_group_sum_lag)"), "{{group}}"),)
                    ),
                    Panel(
                        "Furthest behind, in time",
                        ((_top("max by (group) (kcoord_group_max_lag_seconds)"), "{{group}}"),),
                        "s",
                    ),
                    Panel(
                        "Events of groups",
                        ((_rate("kcoord_group_events_total", by="kind") + " > 0", "{{kind}}"),),
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
                    Panel("Largest groups in memory", ((_top("kcoord_group_state_bytes"), "{{group}}"),), "bytes"),
                ),
            ),
            (
                "Work",
                (
                    Panel("Commits", ((_rate("kcoord_commits_total", by="result"), "{{result}}"),), "ops"),
                    Panel(
                        "A commit, 50th and 99th percentile",
                        (
                            (quantile("kcoord_commit_duration_seconds", q=0.5), "p50"),
                            (quantile("kcoord_commit_duration_seconds"), "p99"),
                        ),
                        "s",
                    ),
                    Panel("Requests", ((_rate("kcoord_request_seconds_count", by="api"), "{{api}}"),), "reqps"),
                    Panel(
                        "Requests, 99th percentile",
                        ((quantile("kcoord_request_seconds", by="api"), "{{api}}"),),
                        "s",
                    ),
                    Panel(
                        "Requests refused",
                        ((_rate("kcoord_requests_refused_total", by="api, error"), "{{api}} {{error}}"),),
                        "reqps",
                    ),
                    Panel(
                        "Offsets of owners that were replaced",
                        ((_rate("kcoord_commits_fenced_total", by="reason"), "{{reason}}"),),
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
                        ((_rate("process_cpu_seconds_total", by="instance"), "{{instance}}"),),
                        "percentunit",
                    ),
                    Panel("Memory", ((f"process_resident_memory_bytes{{{_NODES}}}", "{{instance}}"),), "bytes"),
                    Panel("Connections", ((f"kcoord_connections{{{_NODES}}}", "{{instance}}"),)),
                    Panel(
                        "Room on the data disk",
                        ((f"kcoord_data_disk_free_bytes{{{_NODES}}} / kcoord_data_disk_size_bytes", "{{instance}}"),),
                        "percentunit",
                    ),
                    Panel("Kafka answers", ((f"kcoord_kafka_reachable{{{_NODES}}}", "{{instance}}"),)),
                    Panel("Waits for the disk", ((f"kcoord_unwritten_bytes{{{_NODES}}}", "{{instance}}"),), "bytes"),
                    Panel(
                        "Warnings and errors in the log",
                        (
                            (
                                _rate("kcoord_log_lines_total", f'level=~"warning|error|critical",{_NODES}', "kind")
                                + " > 0",
                                "{{kind}}",
                            ),
                        ),
                        "ops",
                    ),
                ),
            ),
        ),
    ),
    Board(
        "kcoord-group",
        "kcoord: group",
        (
            (
                "Now",
                (
                    _number("Records behind", f"sum(kcoord_group_sum_lag{{{_OF_GROUP}}})"),
                    _number("Longest lag", f"max(kcoord_group_max_lag_seconds{{{_OF_GROUP}}})", "s"),
                    _number("Members", f"sum(kcoord_group_members{{{_OF_GROUP}}})"),
                    _number("Group epoch", f"max(kcoord_group_epoch{{{_OF_GROUP}}})"),
                    _number("In memory", f"sum(kcoord_group_state_bytes{{{_OF_GROUP}}})", "bytes"),
                    _number("Furthest partition", f"max(kcoord_group_max_lag{{{_OF_GROUP}}})"),
                ),
            ),
            (
                "Lag",
                (
                    Panel(
                        "Records behind, by topic",
                        ((f"sum by (group, topic) (kcoord_group_lag{{{_OF_GROUP}}})", "{{group}} {{topic}}"),),
                        width=12,
                    ),
                    Panel(
                        "Time behind, by topic",
                        ((f"max by (group, topic) (kcoord_group_lag_seconds{{{_OF_GROUP}}})", "{{group}} {{topic}}"),),
                        "s",
                        width=12,
                    ),
                    Panel(
                        "Partitions that are furthest behind",
                        ((_top(f"kcoord_group_lag{{{_OF_GROUP}}}"), "{{topic}} {{partition}}"),),
                        width=12,
                    ),
                    Panel(
                        "Records committed",
                        (
                            (
                                f"sum by (group, topic) (rate(kcoord_group_committed_offset{{{_OF_GROUP}}}"
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
                    Panel("Members", ((f"kcoord_group_members{{{_OF_GROUP}}}", "{{group}}"),)),
                    Panel("State", ((f"kcoord_group_state{{{_OF_GROUP}}}", "{{group}} {{state}}"),)),
                    Panel(
                        "Status, by Burrow's rules", ((f"kcoord_group_status{{{_OF_GROUP}}}", "{{group}} {{status}}"),)
                    ),
                    Panel(
                        "Changes of the group",
                        ((f"changes(kcoord_group_epoch{{{_OF_GROUP}}}[$__rate_interval])", "{{group}}"),),
                        about="Each step of the group epoch is a change of members, topics or subscriptions.",
                    ),
                ),
            ),
        ),
        (_GROUP,),
    ),
    Board(
        "kcoord-replication",
        "kcoord: replication",
        (
            (
                "Now",
                (
                    _number("Shards without a leader", "max(kcoord_offline_shards)"),
                    _number("Shards under their minimum", f"sum(kcoord_under_min_isr_shards{{{_NODES}}})"),
                    _number("Under-replicated shards", f"sum(kcoord_under_replicated_shards{{{_NODES}}})"),
                    _number("Stalled shards", f"sum(kcoord_stalled_shards{{{_NODES}}})"),
                    _number("Controllers", "sum(kcoord_active_controller)"),
                    _number("Live nodes", "max(kcoord_live_nodes)"),
                ),
            ),
            (
                "Shards",
                (
                    Panel("Shards led", ((f"kcoord_led_shards{{{_NODES}}}", "{{instance}}"),)),
                    Panel(
                        "Smallest in-sync set",
                        ((f"min by (instance) (kcoord_shard_isr_size{{{_NODES}}})", "{{instance}}"),),
                    ),
                    Panel(
                        "Decided and not committed",
                        (
                            (
                                f"sum by (instance) (kcoord_shard_log_end{{{_NODES}}} - kcoord_shard_high_watermark)",
                                "{{instance}}",
                            ),
                        ),
                    ),
                    Panel(
                        "Records committed",
                        ((_rate("kcoord_shard_high_watermark", by="instance"), "{{instance}}"),),
                        "rps",
                    ),
                    Panel(
                        "Elections",
                        (
                            (
                                f"sum by (kind) (increase(kcoord_elections_total{{{_NODES}}}[$__rate_interval]))",
                                "{{kind}}",
                            ),
                        ),
                    ),
                    Panel(
                        "Changes of in-sync sets",
                        (
                            (
                                f"sum by (kind) (increase(kcoord_isr_changes_total{{{_NODES}}}[$__rate_interval]))",
                                "{{kind}}",
                            ),
                        ),
                    ),
                ),
            ),
            (
                "ZooKeeper and the controller",
                (
                    Panel("Session", ((f"kcoord_zk_session_state{{{_NODES}}}", "{{instance}} {{state}}"),)),
                    Panel(
                        "A question to ZooKeeper, 99th percentile",
                        ((quantile("kcoord_zk_request_seconds", by="instance"), "{{instance}}"),),
                        "s",
                    ),
                    Panel("Controller", ((f"kcoord_active_controller{{{_NODES}}}", "{{instance}}"),)),
                    Panel(
                        "A sync, 99th percentile",
                        ((quantile("kcoord_fsync_seconds", by="instance"), "{{instance}}"),),
                        "s",
                    ),
                    Panel(
                        "Notices",
                        ((_rate("kcoord_notices_total", by="kind") + " > 0", "{{kind}}"),),
                        "ops",
                        width=16,
                        about="docs/CLUSTER.md says what each means.",
                    ),
                ),
            ),
        ),
    ),
    Board(
        "kcoord-spark",
        "kcoord: Spark queries",
        (
            (
                "How far queries are",
                (
                    Panel("Records behind", ((f"kcoord_group_sum_lag{{{_OF_GROUP}}}", "{{group}}"),), width=12),
                    Panel(
                        "Time behind", ((f"kcoord_group_max_lag_seconds{{{_OF_GROUP}}}", "{{group}}"),), "s", width=12
                    ),
                    Panel("Queries and other members", ((f"kcoord_group_members{{{_OF_GROUP}}}", "{{group}}"),)),
                    Panel(
                        "Records committed",
                        (
                            (
                                _rate("kcoord_group_committed_offset", _OF_GROUP, "group"),
                                "{{group}}",
                            ),
                        ),
                        "rps",
                    ),
                    Panel(
                        "Groups that stand still",
                        ((f'kcoord_group_status{{status!="OK",{_OF_GROUP}}}', "{{group}} {{status}}"),),
                    ),
                ),
            ),
            (
                "Micro-batches at the coordinator, of all groups",
                (
                    Panel(
                        "Micro-batches",
                        ((_rate("kcoord_request_seconds_count", 'api="Advance"', "instance"), "{{instance}}"),),
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
                                _rate(
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
                                _rate("kcoord_group_events_total", 'kind=~"member-.*"', "kind"),
                                "{{kind}}",
                            ),
                        ),
                        "ops",
                    ),
                    Panel(
                        "Starts that Kafka does not have, or that are not known",
                        (
                            (
                                _rate("kcoord_group_events_total", 'kind=~"out-of-range|start-unresolved"', "kind"),
                                "{{kind}}",
                            ),
                        ),
                        "ops",
                    ),
                    Panel(
                        "Commits of queries that were replaced",
                        ((_rate("kcoord_commits_fenced_total", "", "reason"), "{{reason}}"),),
                        "ops",
                    ),
                ),
            ),
        ),
        (_GROUP,),
    ),
)


def document(board: Board) -> dict[str, Any]:
    """Return a board as Grafana takes it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for heading, row in board.rows:
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": heading, "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1}}
        )
        y += 1
        x = 0
        for panel in row:
            if x + panel.width > _WIDTH:
                x, y = 0, y + panel.height
            panels.append(_panel(panel, len(panels) + 1, x, y))
            x += panel.width
        y += row[-1].height
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["kcoord"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_data_source(), *(_variable(*variable) for variable in board.variables)]},
        "links": [
            {"type": "dashboards", "tags": ["kcoord"], "title": "kcoord", "asDropdown": True, "includeVars": True}
        ],
        "panels": panels,
    }


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": expr, "legendFormat": legend or "__auto"}
            for place, (expr, legend) in enumerate(panel.asks)
        ],
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def texts() -> dict[Path, str]:
    """Return the content of each file."""
    return {FOLDER / f"{board.uid}.json": json.dumps(document(board), indent=1) + "\n" for board in BOARDS}


def main(arguments: list[str]) -> int:
    """Write the boards, or say which are not as they would be written; return the exit code."""
    wrong = [path.name for path, text in texts().items() if not path.is_file() or path.read_text() != text]
    if "--check" in arguments and wrong:
        print(f"boards: FAILED differ={','.join(wrong)}; run scripts/boards.py")
        return 1
    for path, text in texts().items():
        path.write_text(text)
    panels = sum(len(row) for board in BOARDS for _, row in board.rows)
    print(f"boards: OK boards={len(BOARDS)} panels={panels}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
