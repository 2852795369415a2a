"""The public names for Python programs: `from kcoord import Client, Consumer`. Each is loaded when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_kcoord.client import AsyncClient, Client
    from spark_kcoord.client import errors as client_errors
    from spark_kcoord.client import values as client_values
    from spark_kcoord.consumer import AsyncConsumer, Consumer, errors
    from spark_kcoord.consumer.values import (
        ConsumerRebalanceListener,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "Client",
    "Consumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "client_errors",
    "client_values",
    "errors",
]

_MODULES: Final = {
    "client_errors": "spark_kcoord.client.errors",
    "client_values": "spark_kcoord.client.values",
    "errors": "spark_kcoord.consumer.errors",
}
_HOMES: Final = {"Client": "spark_kcoord.client", "Consumer": "spark_kcoord.consumer"}
_VALUES: Final = "spark_kcoord.consumer.values"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kcoord' has no attribute '{name}'")
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    return getattr(importlib.import_module(_HOMES.get(name.removeprefix("Async"), _VALUES)), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
