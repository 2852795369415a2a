"""Answers what osv.dev is asked by pip-audit from a folder of records, for machines that do not reach it.

The records are OSV's, as JSON or YAML, of packages on PyPI: `DIR/**/NAME/*.yaml`, as https://github.com/pypa/advisory-database
lays them. A version is affected when a record lists it, or when it is between the events of one of its ranges.
"""

import json
import re
import threading
from datetime import UTC, datetime
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_MODIFIED: Final = re.compile(r"""^\s*"?modified"?:\s*["']?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)""", re.MULTILINE)
_ENDINGS: Final = (".yaml", ".json")


class AdvisoryService:
    """A service on loopback over a folder of records, for as long as its block lasts."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(path for path in folder.rglob("*") if path.suffix in _ENDINGS and ".git" not in path.parts)
        service = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = json.dumps(
                    {"vulns": service.affecting(asked["package"]["name"], asked["version"])}, default=str
                )
                self.send_response(200)
                self.send_header("content-length", str(len(answer.encode())))
                self.end_headers()
                self.wfile.write(answer.encode())

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address to ask."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/query"

    @cached_property
    def newest(self) -> datetime:
        """The time at which the newest record was changed; of no records long ago."""
        times = [found[1] for path in self._files if (found := _MODIFIED.search(path.read_text(errors="replace")))]
        return datetime.fromisoformat(max(times, default="1970-01-01T00:00:00")).replace(tzinfo=UTC)

    def affecting(self, name: str, version: str) -> list[dict[str, Any]]:
        """Return the records that affect a version of a package."""
        canonical = canonicalize_name(name)
        records = [_read(path) for path in self._files if canonicalize_name(path.parent.name) == canonical]
        return [record for record in records if affects(record, canonical, version)]


def affects(record: dict[str, Any], name: str, version: str) -> bool:
    """Say whether a record that was not withdrawn names this version of the package."""
    if record.get("withdrawn"):
        return False
    for affected in record.get("affected", ()):
        if canonicalize_name(affected["package"]["name"]) != name or affected["package"]["ecosystem"] != "PyPI":
            continue
        if version in affected.get("versions", ()):
            return True
        ranges = [one["events"] for one in affected.get("ranges", ()) if one["type"] == "ECOSYSTEM"]
        if any(_is_between(events, Version(version)) for events in ranges):
            return True
    return False


def _is_between(events: list[dict[str, str]], version: Version) -> bool:
    """Go through the events of a range in the order of their versions; the last one before this version counts."""
    is_in = False
    for at, kind in sorted((_version(text), kind) for event in events for kind, text in event.items()):
        if kind == "introduced" and version >= at:
            is_in = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            is_in = False
    return is_in


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _read(path: Path) -> dict[str, Any]:
    if path.suffix == ".json":
        record = json.loads(path.read_text())
    else:
        import yaml  # of bandit

        record = yaml.safe_load(path.read_text())
    return dict(record)
