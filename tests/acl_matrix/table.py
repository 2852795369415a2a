"""The table that the matrix is held against, written by hand and knowing nothing of the code that decides.

Letters are rights: R read, D describe, A alter, X delete. What a principal has on a resource is a word of them.
"""

from dataclasses import dataclass, field

GROUPS = ("g", "team-a", "h", "nope", "zilch")
"""The first three exist."""
EXISTING = GROUPS[:3]
TOPICS = ("t", "u")

OF_GROUP = {
    "FindCoordinator": "D",
    "FetchOffsets": "D",
    "DescribeGroup": "D",
    "ListGroupEvents": "D",
    "DescribeControls": "D",
    "ChangePause": "A",
    "ChangeDrain": "A",
    "ResetOffsets": "A",
    "CancelResets": "A",
    "ReleaseClaims": "A",
    "DeleteOffsets": "X",
    "DeleteGroup": "X",
    "FinishClaims": "R",
    "BeginClaims": "R",
}
OF_GROUP_AND_TOPIC = {
    "ResetOffsets": ("A", "RD"),
    "DeleteOffsets": ("X", "R"),
    "CommitOffsets": ("R", "R"),
    "RegisterConsumer": ("R", "D"),
}
"""Those that name topics, also where the same one may name none."""
OF_OWN_GROUP = {
    "Ping": "R",
    "FetcherStarted": "R",
    "FetcherStopped": "R",
    "Advance": "R",
    "ConfirmClaims": "R",
    "ReportOutOfRange": "R",
    "LeaveGroup": "R",
}
OF_CLUSTER = {"DescribeCluster": "D", "ReassignShards": "A", "ElectLeaders": "A", "DrainNode": "A"}
OF_NOBODY = ("ListClaims",)
FILTERED = ("ListGroups",)


@dataclass(frozen=True)
class Kind:
    """A kind of principal: the rules that speak of it, and what it has by them."""

    rules: str
    groups: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    cluster: str = ""
    is_superuser: bool = False


EVERYTHING = dict.fromkeys(GROUPS, "RDAX")

KINDS = {
    "stranger": Kind("allow User:other all group literal *\nallow User:other all cluster"),
    "reader": Kind(
        "allow User:reader read group literal g\nallow User:reader read group literal nope\n"
        "allow User:reader read topic literal t",
        {"g": "RD", "nope": "RD"},
        {"t": "RD"},
    ),
    "describer": Kind(
        "allow User:describer describe group literal g\nallow User:describer describe group prefix team-\n"
        "allow User:describer describe group literal zilch\nallow User:describer describe topic literal t",
        {"g": "D", "team-a": "D", "zilch": "D"},
        {"t": "D"},
    ),
    "alterer": Kind("allow User:alterer alter group literal *", dict.fromkeys(GROUPS, "DA")),
    "deleter": Kind("allow User:deleter delete group prefix team-", {"team-a": "DX"}),
    "owner": Kind(
        "allow User:owner all group literal *\nallow User:owner all topic literal *\nallow User:owner all cluster",
        EVERYTHING,
        {"t": "RD", "u": "RD"},
        "DA",
    ),
    "team": Kind(
        "allow User:team all group prefix team-\nallow User:team read topic prefix t",
        {"team-a": "RDAX"},
        {"t": "RD"},
    ),
    "several": Kind(
        "allow User:several read,alter group literal g\nallow User:several delete group prefix n",
        {"g": "RDA", "nope": "DX"},
    ),
    "held": Kind(
        "allow User:held all group literal *\nallow User:held all topic literal *\n"
        "deny User:held read group literal g\ndeny User:held all group prefix team-\n"
        "deny User:held describe topic literal t\ndeny User:* delete group literal nope",
        {"g": "DAX", "h": "RDAX", "nope": "RDA", "zilch": "RDAX"},
        {"t": "R", "u": "RD"},
    ),
    "anybody": Kind(
        "allow User:* describe group literal *\nallow User:* describe cluster\nallow User:other all group literal g",
        dict.fromkeys(GROUPS, "D"),
        {},
        "D",
    ),
    "keeper": Kind("allow User:keeper describe cluster", {}, {}, "D"),
    "operator": Kind("allow User:operator alter cluster", {}, {}, "DA"),
    "barred": Kind("allow User:barred all cluster\ndeny User:barred alter cluster", {}, {}, "D"),
    "super": Kind(
        "deny User:* all group literal *\ndeny User:super all topic literal *\ndeny User:super all cluster",
        EVERYTHING,
        {"t": "RD", "u": "RD"},
        "DA",
        is_superuser=True,
    ),
    "ANONYMOUS": Kind(
        "allow User:ANONYMOUS read group literal g\nallow User:ANONYMOUS describe topic literal *",
        {"g": "RD"},
        {"t": "D", "u": "D"},
    ),
}
