"""The decoder of this install: `python -m spark_kcoord.deploy.doctor_facts` prints it as JSON, for `kcoord doctor`.

A process of its own, because a compiled module that does not fit the machine may end the process that loads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import TypedDict

__all__ = ["Fact", "facts"]


class Fact(TypedDict):
    """One thing found: its name, ok, warn or fail, what it is, and why or what to do about it."""

    name: str
    status: str
    value: str
    why: str


def facts() -> list[Fact]:
    """Return what there is to know; never raises for what is missing."""
    return [*_decoder(), *_codecs()]


def _decoder() -> Iterator[Fact]:
    from spark_kcoord.errors import KcoordError

    try:
        from spark_kcoord.fetch.decoding.decode import chosen_decoder

        chosen = chosen_decoder()
    except (ImportError, KcoordError) as error:
        install = "install kcoord[spark], or correct KCOORD_DECODER"
        yield Fact(name="decoder", status="fail", value="none", why=f"{error}; {install}")
        return
    is_native = chosen.name == "native"
    yield Fact(name="decoder", status="ok" if is_native else "warn", value=chosen.name, why=chosen.why)
    if is_native:
        yield Fact(name="crc32c", status="ok", value="compiled", why="part of the compiled decoder")
        return
    import google_crc32c

    kind = str(google_crc32c.implementation)
    why = "google-crc32c's" if kind == "c" else "google-crc32c's slow one; install a wheel of it for this machine"
    yield Fact(name="crc32c", status="ok" if kind == "c" else "warn", value=kind, why=why)


def _codecs() -> Iterator[Fact]:
    try:
        import cramjam
    except ImportError as error:
        yield Fact(name="codecs", status="fail", value="none", why=f"{error}; install kcoord again")
        return
    plain = b"kcoord" * 100
    working: list[str] = []
    broken: list[str] = []
    for name in ("gzip", "snappy", "lz4", "zstd"):
        codec = getattr(cramjam, name)
        fits = bytes(codec.decompress(codec.compress(plain))) == plain
        (working if fits else broken).append(name)
    why = f"cramjam {metadata.version('cramjam')}"
    status = "fail" if broken else "ok"
    yield Fact(name="codecs", status=status, value=" ".join(working), why=why if not broken else f"{broken} of {why}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts()))
