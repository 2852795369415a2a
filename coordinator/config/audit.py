"""The settings of a node's audit log: the file of lines about changes that somebody asked for."""

from typing import Literal

from coordinator.config.section import Section, setting


class AuditSettings(Section):
    """The audit log: a JSON line for every verb that changes something, and for every attempt that was refused."""

    file: str = setting("", "file", "Where the lines go. Empty: there is no audit log.")
    file_bytes: int = setting(
        64 * 1024 * 1024, "bytes", "Size at which a file is set aside and another one begun.", ge=4096, le=1024**4
    )
    files_max: int = setting(10, "files", "Files that are kept, with the one that is written.", ge=1, le=10_000)
    waiting_max: int = setting(
        10_000, "lines", "Lines that may wait for the disk; at so many it counts as full.", ge=10, le=1_000_000
    )
    refused_per_minute: int = setting(
        60,
        "lines",
        "Lines in a minute about one principal at one address that is refused one verb; more are counted in one line.",
        ge=1,
        le=1_000_000,
    )
    when_full: Literal["refuse", "go-on"] = setting(
        "refuse",
        "",
        "When lines cannot be written: changes are refused until they can, or go on and the lines are lost.",
    )
