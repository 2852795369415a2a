"""The public names of the plain consumers: `from kcoord import Consumer`. Each is loaded when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_kcoord.consumer import AsyncConsumer, Consumer, errors
    from spark_kcoord.consumer.values import (
        ConsumerRebalanceListener,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
    )

__all__ = [
    "AsyncConsumer",
    "Consumer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "errors",
]

_VALUES: Final = "spark_kcoord.consumer.values"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kcoord' has no attribute '{name}'")
    if name == "errors":
        return importlib.import_module("spark_kcoord.consumer.errors")
    return getattr(importlib.import_module("spark_kcoord.consumer" if name.endswith("Consumer") else _VALUES), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
