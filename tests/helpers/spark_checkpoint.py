"""A checkpoint as Spark writes one, batch by batch, with the checksums that Hadoop keeps beside its files."""

import json
import struct
import zlib
from pathlib import Path

METADATA = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"a": "b"}})


def write(path: Path, data: str, *, has_checksum: bool = True) -> Path:
    """Write a file of a checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode()
    path.write_bytes(raw)
    if has_checksum:
        sums = [zlib.crc32(raw[at : at + 512]) for at in range(0, len(raw), 512)]
        path.with_name(f".{path.name}.crc").write_bytes(
            b"crc\0" + struct.pack(">i", 512) + b"".join(struct.pack(">I", each) for each in sums)
        )
    return path


class Checkpoint:
    """The checkpoint of one query; `version` is that of its offset log."""

    def __init__(self, directory: Path, version: int = 1) -> None:
        self.path = directory / "checkpoint"
        self.version = version
        write(self.path / "metadata", '{"id":"1b2c"}')

    def began(self, *offsets: object) -> "Checkpoint":
        """Write where each source began."""
        for number, each in enumerate(offsets):
            write(self.path / "sources" / str(number) / "0", f"\0v1\n{json.dumps(each)}")
        return self

    def offsets(self, batch: int, *sources: object) -> "Checkpoint":
        """Begin a batch that reads each source up to there; None stands for a source that has read nothing."""
        lines = ["-" if each is None else json.dumps(each) for each in sources]
        if self.version == 2:
            lines = [f"{number}:{line}" for number, line in enumerate(lines)]
        write(self.path / "offsets" / str(batch), "\n".join([f"v{self.version}", METADATA, *lines]))
        return self

    def commit(self, *batches: int, version: int = 1) -> "Checkpoint":
        """Finish batches."""
        for batch in batches:
            write(self.path / "commits" / str(batch), f'v{version}\n{{"nextBatchWatermarkMs":0}}')
        return self
