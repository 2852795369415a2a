"""State that a client would have grow without bound: offsets with all the metadata that each may have."""

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, FetchOffsets
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import wait
from tests.standing.trial import Trial

MIB = 1 << 20
METADATA = "m" * 4_000
AT_ONCE = 200
GROUP_MIB = 8
NODE_MIB = 40


def fill(trial: Trial, group: str) -> tuple[int, str]:
    """Commit more and more partitions until that is refused; return how many are there and why no more."""
    with RawMember(trial.address, group) as tool:
        for first in range(0, 40 * MIB // 4_000, AT_ONCE):
            partitions = range(first, first + AT_ONCE)
            offsets = in_columns(OffsetToCommit("t", partition, 1, metadata=METADATA) for partition in partitions)
            answer = tool.ask(CommitOffsets(group, offsets))
            if answer.error or getattr(answer, "refused", ()):
                return first, answer.message or answer.refused[0].message
    return 40 * MIB // 4_000, "nothing was refused"


def filled(trial: Trial) -> None:
    """Fill a group to its limit, then group after group to the node's, and start the node again over all of it."""
    trial.start(f"group.group_max_bytes={GROUP_MIB * MIB}", f"group.node_max_bytes={NODE_MIB * MIB}")
    trial.beside()
    count, why = fill(trial, "full-0")
    must("group_max_bytes" in why, f"{count} were taken: {why}")
    whys = [fill(trial, f"full-{number}")[1] for number in range(1, 8)]
    must(any("node_max_bytes" in each for each in whys), f"nothing says that the node is full: {whys}")
    trial.kill()
    trial.start()
    with RawMember(trial.address, "full-0") as tool:
        must(len(tool.ask(FetchOffsets("full-0")).offsets) > 0, "what was taken is not there", kind="lost")
    must("group_max_bytes" in fill(trial, "full-0")[1], "the limit is forgotten")
    on_disk = sum(file.stat().st_size for file in trial.node.data_dir.rglob("*") if file.is_file())
    must(on_disk < 6 * NODE_MIB * MIB, f"{on_disk // MIB} MiB are on disk for {NODE_MIB} MiB of state")
    wait(1)


CASES = [
    Case("much-state", "state has a limit for a group and for a node, with a refusal that names it", filled),
]
