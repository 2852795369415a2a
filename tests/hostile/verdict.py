"""The findings of a hostile run: what the node took and kept, and how the good client fared."""

from dataclasses import dataclass

MOST_GROWTH_MIB = 64
MOST_RATIO = 2.0
MOST_LOG_MIB = 16


@dataclass(slots=True)
class Verdict:
    """One line of figures; the bars are those of the issue that asked for the run."""

    frames: int
    wanted_frames: int
    crashes: int
    rss_growth_mib: float
    """Resident memory once all of them are gone, less what it was before they came."""
    good_p99_ratio: float
    """The 99th percentile of the good client's commits while they are there, by that of a node that nobody attacks."""
    log_mib: float
    """The lines that the node has said meanwhile."""
    fds_left: int
    """Files that are open once all of them are gone, more than before."""
    lost: int = 0
    """Connections of the good client that were lost, requests of it that were refused, and commits that are gone."""

    def missed(self) -> list[str]:
        """Return a sentence for each bar that was missed."""
        bars = (
            (self.frames < self.wanted_frames, f"{self.frames} frames were sent and not {self.wanted_frames}"),
            (self.crashes > 0, f"the node ended or met a bug {self.crashes} times"),
            (self.rss_growth_mib > MOST_GROWTH_MIB, f"memory grew by more than {MOST_GROWTH_MIB} MiB"),
            (self.good_p99_ratio > MOST_RATIO, f"the good client waited more than {MOST_RATIO:g} times as long"),
            (self.log_mib > MOST_LOG_MIB, f"more than {MOST_LOG_MIB} MiB were written"),
            (self.fds_left > 0, f"{self.fds_left} files are left open"),
            (self.lost > 0, f"the good client lost its connection or was refused {self.lost} times"),
        )
        return [why for is_missed, why in bars if is_missed]

    def __str__(self) -> str:
        word = "FAILED" if self.missed() else "OK"
        return (
            f"hostile: {word} frames={self.frames} crashes={self.crashes} rss_growth_mib={self.rss_growth_mib:.0f} "
            f"good_p99_ratio={self.good_p99_ratio:.2f} log_mib={self.log_mib:.1f} fds_left={self.fds_left}"
        )
