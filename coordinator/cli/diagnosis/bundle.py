"""The form of a bundle: a zip of one file a part with a manifest; what a part is about is not known here.

A part that fails is a file that says why, and keeps no other one out.
"""

import hashlib
import io
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from importlib import metadata
from typing import Any, Final

import msgspec
import typer

from coordinator.protocol.text.escaping import json_document

FORMAT: Final = "kcoord-bundle"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
_OLDEST_S: Final = 315_532_800
"""The beginning of 1980, before which no file of a zip can be."""


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a part; `left_out` says in words what is not in it, empty for nothing."""

    text: str
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a bundle, and the function that makes its content."""

    name: str
    about: str
    make: Callable[[], Found]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle as bytes, with how many files it has besides its manifest and which parts could not be made."""

    data: bytes
    files: int
    failed: tuple[str, ...]


def make_bundle(parts: Iterable[Part], now_s: float) -> Bundle:
    """Make the parts one after the other, and a zip of them."""
    made = io.BytesIO()
    listed: list[dict[str, object]] = []
    failed: list[str] = []
    at = time.gmtime(max(now_s, _OLDEST_S))[:6]
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in parts:
            name, found, why = part.name, None, ""
            try:
                found = part.make()
            except typer.Exit:
                why = "it was refused; the command said why on standard error"
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one part, the others are wanted the more
                why = f"{type(error).__name__}: {error}"
            if found is None:
                name, found = f"{part.name}.failed.txt", Found(f"{part.about} could not be had: {why}\n")
                failed.append(part.name)
            data = found.text.encode(errors="backslashreplace")
            _add(archive, name, data, at)
            listed.append(
                {
                    "file": name,
                    "about": part.about,
                    "bytes": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "failed": bool(why),
                    "left_out": found.left_out or None,
                }
            )
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s)),
            "made_by": f"kcoord {metadata.version('kcoord')}",
            "files": listed,
        }
        _add(archive, MANIFEST, document(manifest).encode(), at)
    return Bundle(made.getvalue(), len(listed), tuple(failed))


def document(value: object) -> str:
    """Return a value as a JSON document in which every field has its name."""
    return json_document(msgspec.json.format(msgspec.json.encode(_named(value)), indent=2).decode()) + "\n"


def _add(archive: zipfile.ZipFile, name: str, data: bytes, at: tuple[int, ...]) -> None:
    entry = zipfile.ZipInfo(name, (at[0], at[1], at[2], at[3], at[4], at[5]))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    archive.writestr(entry, data)


def _named(value: Any) -> Any:
    """Return a value with messages, which travel as lists, as objects."""
    if isinstance(value, msgspec.Struct):
        return {name: _named(getattr(value, name)) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _named(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _named(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_named(each) for each in value]
    return value
