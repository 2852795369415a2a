"""The report of the data path's benchmark: figures and their bars, the table, the JSON file and the plot."""

import datetime
import html
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyspark

from benchmarks.datapath_starts import SessionStarts
from benchmarks.datapath_triggers import Turn

OURS = "kcoord"
BARS: Mapping[str, tuple[str, float]] = {
    "min_default": ("at least", 2.2),
    "min_tuned": ("at least", 1.7),
    "floor_ratio": ("at most", 1.25),
    "trigger_ratio": ("at most", 0.8),
    "fallback_default": ("at least", 1.5),
    "sockets_min_tuned": ("at least", 1.85),
    "sockets_median_tuned": ("at least", 2.2),
    "sockets_floor_ratio": ("at most", 1.2),
    "first_batch_over_floor": ("at most", 1.3),
    "first_session_over_floor": ("at most", 1.3),
}
_HEADING = "## Data path: `make bench-datapath`"
_BAR_WIDTH, _BAR_HEIGHT, _LABEL_WIDTH = 420, 14, 190
_COLOURS = {OURS: "#1b7f5c", "default": "#b5483b", "tuned": "#d99a3d", "floor": "#8a8f98", "fallback": "#5b8fc7"}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: seconds by the clock, and the processor's for Spark, its Python workers and the broker together."""

    seconds: float
    processor_seconds: float


class Runs(dict[str, dict[str, list[Run]]]):
    """Runs by case and side, one a turn, of one session."""

    def add(self, case: str, side: str, run: Run) -> None:
        """Note one run."""
        self.setdefault(case, {}).setdefault(side, []).append(run)

    def seconds(self, case: str, side: str) -> float:
        """Return the median by the clock."""
        return statistics.median(run.seconds for run in self[case][side])

    def processor_seconds(self, case: str, side: str) -> float:
        """Return the median of the processor's time."""
        return statistics.median(run.processor_seconds for run in self[case][side])

    def ratios(self, case: str, over: str, under: str) -> list[float]:
        """Return one side's seconds over another's, turn by turn."""
        return [a.seconds / b.seconds for a, b in zip(self[case][over], self[case][under], strict=True)]

    def medians(self, over: str, under: str) -> list[float]:
        """Return the median ratio of two sides in each case in which both took part."""
        return [
            statistics.median(self.ratios(case, over, under))
            for case, sides in self.items()
            if {over, under} <= set(sides)
        ]

    def rounded(self) -> dict[str, dict[str, list[list[float]]]]:
        """Return both figures of each run, for a file."""
        return {
            case: {
                side: [[round(run.seconds, 3), round(run.processor_seconds, 2)] for run in runs]
                for side, runs in sides.items()
            }
            for case, sides in self.items()
        }


@dataclass(slots=True)
class Results:
    """Runs through TCP and Unix sockets; the turns of the triggers and the starts; what was proved about the rows."""

    scale: float
    runs: Runs = field(default_factory=Runs)
    sockets: Runs = field(default_factory=Runs)
    triggers: dict[str, list[Turn]] = field(default_factory=dict)
    idle_cores: dict[str, float] = field(default_factory=dict)
    starts: dict[str, list[SessionStarts]] = field(default_factory=dict)
    rows_equal: bool = False
    crc: bool = False

    def figures(self) -> dict[str, float]:
        """Return the figures of the summary line."""
        default, tuned = (self.runs.medians(side, OURS) for side in ("default", "tuned"))
        triggers = zip(self.triggers[OURS], self.triggers["peer"], strict=True)
        return {
            "min_default": min(default),
            "median_default": statistics.median(default),
            "min_tuned": min(tuned),
            "median_tuned": statistics.median(tuned),
            "floor_ratio": max(self.runs.medians(OURS, "floor")),
            "trigger_ratio": statistics.median(ours.trigger_ms / peer.trigger_ms for ours, peer in triggers),
            "fallback_default": min(self.runs.medians("default", "fallback")),
            "sockets_min_tuned": min(self.sockets.medians("tuned", OURS)),
            "sockets_median_tuned": statistics.median(self.sockets.medians("tuned", OURS)),
            "sockets_floor_ratio": max(self.sockets.medians(OURS, "floor")),
            **self.start_figures(),
        }

    def start_figures(self) -> dict[str, float]:
        """Return how long kcoord takes to a first micro-batch over the peer and over the floor, turn by turn."""
        found = {}
        for name, seconds in (("batch", SessionStarts.later), ("session", SessionStarts.first)):
            for suffix, under in (("ratio", "peer"), ("over_floor", "floor")):
                pairs = zip(self.starts[OURS], self.starts[under], strict=True)
                ratios = [seconds(ours) / seconds(other) for ours, other in pairs]
                found[f"first_{name}_{suffix}"] = statistics.median(ratios)
        return found


def judge(results: Results) -> tuple[list[str], str]:
    """Return the names of the bars that were missed, and the summary."""
    figures = results.figures()
    missed = [name for name in ("rows_equal", "crc") if not getattr(results, name)]
    for name, (kind, bar) in BARS.items():
        if figures[name] < bar if kind == "at least" else figures[name] > bar:
            missed.append(name)
    shown = {"rows_equal": int(results.rows_equal), "crc": int(results.crc)} | {
        name: f"{value:.2f}" for name, value in figures.items()
    }
    return missed, " ".join(f"{name}={value}" for name, value in shown.items())


def table(results: Results) -> str:
    """Return the results as Markdown; the columns of sockets are of the session with Unix sockets."""
    runs, sockets = results.runs, results.sockets
    lines = [
        "| topic, action | kcoord s | default s | tuned s | default over kcoord | tuned over kcoord | processor s "
        "| sockets: kcoord s | tuned s | tuned over kcoord |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in runs:
        cells = [f"{runs.seconds(case, side):.2f}" for side in (OURS, "default", "tuned")]
        cells += [_spread(runs.ratios(case, side, OURS)) for side in ("default", "tuned")]
        cells.append(", ".join(f"{runs.processor_seconds(case, side):.1f}" for side in (OURS, "default", "tuned")))
        cells += [f"{sockets.seconds(case, side):.2f}" for side in (OURS, "tuned")]
        cells.append(_spread(sockets.ratios(case, "tuned", OURS)))
        lines.append(f"| {case} | {' | '.join(cells)} |")
    lines += ["", "| besides | s | ratio |", "|---|---|---|"]
    for case, sides in runs.items():
        for name, found in (("floor", runs), ("floor with sockets", sockets)):
            if "floor" in sides:
                ratio = _spread(found.ratios(case, OURS, "floor"))
                lines.append(f"| {case}: {name} | {found.seconds(case, 'floor'):.2f} | kcoord over floor {ratio} |")
        if "fallback" in sides:
            ratio = _spread(runs.ratios(case, "default", "fallback"))
            fallback = runs.seconds(case, "fallback")
            lines.append(f"| {case}: NumPy decoder, stock transport | {fallback:.2f} | default over it {ratio} |")
    lines += ["", "| small micro-batches | trigger ms | of that: parts, ms | cores when idle |", "|---|---|---|---|"]
    for name, turns in results.triggers.items():
        parts = {part: statistics.median(turn.parts_ms[part] for turn in turns) for part in turns[0].parts_ms}
        told = ", ".join(f"{part} {value:.0f}" for part, value in parts.items())
        trigger, idle = _spread([turn.trigger_ms for turn in turns], digits=0), f"{results.idle_cores[name]:.2f}"
        lines.append(f"| {name} | {trigger} | {told} | {idle} |")
    lines += ["", "| to the first micro-batch | first query s | of that load() s | later ones s | of that load() s |"]
    lines.append("|---|---|---|---|---|")
    for name, sessions in results.starts.items():
        first = [session.starts[0].load_seconds for session in sessions]
        later = [statistics.median(start.load_seconds for start in session.starts[1:]) for session in sessions]
        columns = ([one.first() for one in sessions], first, [one.later() for one in sessions], later)
        lines.append(f"| {name} | {' | '.join(_spread(column) for column in columns)} |")
    return "\n".join(lines)


def destination(root: Path, *, is_kept: bool) -> Path:
    """Return where results go: `benchmarks` of the project when they are to be kept, else a folder that git ignores."""
    return root / ("benchmarks" if is_kept else "build/benchmarks")


def save(results: Results, directory: Path) -> None:
    """Write datapath.json and datapath.svg, and the section of RESULTS.md where that file is there."""
    directory.mkdir(parents=True, exist_ok=True)
    document = {
        "date": _today(),
        "machine": machine(),
        "scale": results.scale,
        "rows_equal": results.rows_equal,
        "crc": results.crc,
        "figures": {name: round(value, 3) for name, value in results.figures().items()},
        "runs": results.runs.rounded(),
        "sockets": results.sockets.rounded(),
        "idle_cores": {name: round(cores, 3) for name, cores in results.idle_cores.items()},
        "starts": {name: [asdict(session) for session in sessions] for name, sessions in results.starts.items()},
        "triggers": {name: [asdict(turn) for turn in turns] for name, turns in results.triggers.items()},
    }
    (directory / "datapath.json").write_text(json.dumps(document, indent=1) + "\n")
    (directory / "datapath.svg").write_text(plot(results))
    page = directory / "RESULTS.md"
    if page.exists():
        page.write_text(_with_section(page.read_text(), _section(results)))


def machine() -> str:
    """Return the machine and the versions that matter, in a few words."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in _read(Path("/proc/cpuinfo")).splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores of {cpu} (load {load:.1f} at the end), Python {platform.python_version()}, "
        f"PySpark {pyspark.__version__}, pyarrow {pa.__version__}, spark-sql-kafka 4.2.0, Kafka 4.3.1"
    )


def plot(results: Results) -> str:
    """Return the medians as bars, each side of each case, in SVG."""
    longest = max(results.runs.seconds(case, side) for case, sides in results.runs.items() for side in sides)
    rows: list[str] = []
    y = 30
    for case, sides in results.runs.items():
        rows.append(f'<text x="8" y="{y + 12}" font-weight="bold">{html.escape(case)}</text>')
        for side in sides:
            middle = results.runs.seconds(case, side)
            width = max(1, round(_BAR_WIDTH * middle / longest))
            rows.append(
                f'<rect x="{_LABEL_WIDTH}" y="{y}" width="{width}" height="{_BAR_HEIGHT - 2}" '
                f'fill="{_COLOURS[side]}"/>'
                f'<text x="{_LABEL_WIDTH + width + 6}" y="{y + 10}">{side} {middle:.2f} s</text>'
            )
            y += _BAR_HEIGHT
        y += 8
    width = _LABEL_WIDTH + _BAR_WIDTH + 140
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="sans-serif" '
        f'font-size="11">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="8" y="16" font-size="13">Seconds to read a topic, medians (less is better)</text>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def _section(results: Results) -> str:
    missed, summary = judge(results)
    return (
        f"{_HEADING}\n\n{_today()}, {machine()}. One broker and one Spark session, local[2], on the same cores; "
        "medians of interleaved turns, the lowest and highest in brackets; 5 million records of 100 B and a million "
        "of 1 KB in 8 partitions. kcoord checks checksums, as the JVM connector does by default; tuned does not. "
        "Processor seconds (kcoord, default, tuned) are of Spark, its Python workers and the broker together. "
        "The columns of sockets are of a second session with spark.python.unix.domain.socket.enabled.\n\n"
        f"{table(results)}\n\n{'Missed: ' + ', '.join(missed) + '. ' if missed else ''}`{summary}`\n\n"
        "![seconds to read a topic](datapath.svg)\n"
    )


def _with_section(page: str, section: str) -> str:
    """Return the page with the section in place of its old one, or at its end."""
    before, found, rest = page.partition(_HEADING)
    if not found:
        return f"{page.rstrip()}\n\n{section}"
    after = rest.partition("\n## ")
    return f"{before}{section}" + (f"\n## {after[2]}" if after[1] else "")


def _spread(values: Sequence[float], digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
