"""Secrets that can be found again: one for each setting that holds a secret, wherever it is declared.

The settings are taken from their declarations, so that a new secret is planted without a word here. A canary is found
as it is, and in the forms in which it travels: base64, hexadecimal, percent-encoded.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Final

from coordinator.client.security import SECURITY_NAMES, SECURITY_SETTINGS
from coordinator.config.section import is_secret
from coordinator.config.sections import ENVIRONMENT_PREFIX, every_setting
from spark_kcoord.consumer.settings import SETTINGS
from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS

SECRET_WORDS: Final = re.compile(r"(?i)secret|password|token|credential|access[.]?key")
"""A name with one of these in it is of a secret; the first, second and third Spark hides by their names."""

OF_CLIENTS: Final = tuple(setting.name for setting in SECURITY_SETTINGS if setting.is_secret)
"""Names of secrets by which clients speak to coordinators: `kcoord.…`."""
OF_READS: Final = tuple(option.name for option in KAFKA_OPTIONS if option.kind.is_secret)
"""Names of secrets by which Spark and consumers read Kafka: `kafka.…`."""
OF_CONSUMERS: Final = tuple(setting.name for setting in SETTINGS.values() if setting.is_secret)
"""Names of the consumer's settings that are or hold secrets."""
OF_NODES: Final = tuple(name for name, setting in every_setting().items() if is_secret(setting))
"""Names of a node's settings that are secrets."""
FILES_OF_NODES: Final = tuple(name for name in every_setting() if name.endswith("_file") and SECRET_WORDS.search(name))
"""Names of a node's settings that name a file with a secret in it."""


def canary(name: str) -> str:
    """Return the secret that is planted in a setting: a word that stands nowhere else."""
    return f"Kx7{hashlib.sha256(name.encode()).hexdigest()[:18]}Zq"


def planted() -> dict[str, str]:
    """Return every canary there can be, by the name of its setting."""
    return {name: canary(name) for name in (*OF_CLIENTS, *OF_READS, *OF_CONSUMERS, *OF_NODES, *FILES_OF_NODES)}


def variable_of(name: str) -> str:
    """Return the environment variable of a node's setting."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def put_into_file(folder: Path, name: str) -> Path:
    """Write the canary of a setting into a file of its own, which only its owner may read."""
    path = folder / name
    path.write_text(canary(name) + "\n")
    path.chmod(0o600)
    return path


def found_in(shown: str | bytes) -> list[str]:
    """Return the names of the settings whose canaries are in what somebody can see."""
    seen = shown if isinstance(shown, bytes) else shown.encode(errors="surrogatepass")
    return [name for name, secret in planted().items() if any(form in seen for form in _forms(secret.encode()))]


def _forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield secret.hex().encode()
    yield "".join(f"%{byte:02X}" for byte in secret).encode()
    for before in range(3):  # base64 of a text in which it begins at any place
        yield base64.b64encode(b"\0" * before + secret)[4 if before else 0 : -4]


def with_client_secret(name: str) -> Iterator[Mapping[str, str]]:
    """Yield settings of a client with the canary of this one among them, in every mix of words and texts there is.

    Some of them are refused; which fit together is for the settings to say.
    """
    chosen = [setting for setting in SECURITY_SETTINGS if setting.words and not setting.is_secret]
    texts = [setting.name for setting in SECURITY_SETTINGS if not setting.words and not setting.is_secret]
    for words in product(*((None, *setting.words) for setting in chosen)):
        said = {setting.name: word for setting, word in zip(chosen, words, strict=True) if word is not None}
        for more in _some_of(texts):
            yield {name: canary(name), **said, **dict.fromkeys(more, "text")}


def _some_of(names: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """Yield no name, each alone, each two, and all."""
    known = tuple(names)
    yield ()
    yield from ((name,) for name in known)
    yield from ((one, another) for at, one in enumerate(known) for another in known[at + 1 :])
    yield known


assert set(OF_CLIENTS) < set(SECURITY_NAMES)
