"""The storage of a local broker, formatted by Kafka's own tool once for all brokers of a version.

What the tool writes depends on Kafka's version alone, but for the ids of cluster, node and directory. So the first
result is kept in the cache, and later ones are copies of it with ids of their own: a start of Java less, a quarter of
what a broker takes to be up. A setting that Kafka cannot use is then refused by the broker and not by the tool.
Decides nothing about ports and settings.
"""

import base64
import contextlib
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from coordinator.local.errors import LocalServiceError

_META: Final = "meta.properties"
_FORMAT_TIMEOUT_S: Final = 60.0

FormatCommand = Callable[[Path, Path], Sequence[str]]
"""Gives the command that formats, for a directory that it may write into and the storage that is to be made."""


def new_id() -> str:
    """Return 16 random bytes as Kafka writes them; a leading dash would look like an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


class KafkaStorage:
    """The storage in a broker's data directory; `kept` is where a formatted one is kept for all brokers."""

    def __init__(self, data_dir: Path, kept: Path) -> None:
        self._data_dir = data_dir
        self._kept = kept
        self.path = data_dir / "storage"

    def cluster_id(self) -> str | None:
        """Return the id that the storage was formatted with, None if it was not; LocalServiceError if it has none."""
        meta = self.path / _META
        if not meta.exists():
            return None
        found = re.search(r"^cluster\.id=(\S+)$", meta.read_text(), re.MULTILINE)
        if found is None:
            raise LocalServiceError(f"{meta} has no cluster.id: remove {self._data_dir} to start afresh.")
        return found[1]

    def format(self, cluster_id: str, node_id: str, command: FormatCommand) -> None:
        """Format a scratch directory and rename it into place; raises LocalServiceError."""
        ids = {"cluster.id": cluster_id, "node.id": node_id, "directory.id": new_id()}
        with tempfile.TemporaryDirectory(prefix=".format-", dir=self._data_dir) as scratch_name:
            made = Path(scratch_name) / "storage"
            if not self._copied(made, ids):
                self._run(command(Path(scratch_name), made))
                self._keep(made)
            if self.path.exists():  # left by somebody, without a cluster id
                raise LocalServiceError(f"{self.path} exists but is not Kafka's: choose another directory.")
            made.replace(self.path)

    def _copied(self, made: Path, ids: Mapping[str, str]) -> bool:
        """Make storage of the one that is kept; return False where there is none."""
        try:
            shutil.copytree(self._kept, made)
            meta = (made / _META).read_text()
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
            return False
        for name, value in ids.items():
            meta = re.sub(rf"^{re.escape(name)}=.*$", f"{name}={value}", meta, flags=re.MULTILINE)
        (made / _META).write_text(meta)
        return True

    def _keep(self, made: Path) -> None:
        """Put a copy into the cache, whole or not at all; without one the next broker is formatted as this one was."""
        with contextlib.suppress(OSError):  # another process has kept one, or the cache is not ours to write
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".format-", dir=self._kept.parent) as scratch_name:
                shutil.copytree(made, Path(scratch_name) / "storage").replace(self._kept)

    def _run(self, command: Sequence[str]) -> None:
        try:
            formatted = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LocalServiceError(
                f"Kafka's storage in {self._data_dir} was not formatted within {_FORMAT_TIMEOUT_S:g} s: this "
                "machine is too busy, or its disk too slow. Try again."
            ) from error
        except OSError as error:
            raise LocalServiceError(f"Kafka's storage in {self._data_dir} cannot be formatted: {error}.") from error
        if formatted.returncode != 0:
            raise LocalServiceError(
                f"Kafka's storage in {self._data_dir} cannot be formatted. Kafka says:\n{formatted.stdout}"
            )
