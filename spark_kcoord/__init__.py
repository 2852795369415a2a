"""The Spark data source ``format("kcoord")``: Spark as a member of a consumer group, and the plain consumer beside it.

Spark finds the format by its name. The names here are for the program in the Spark driver, and for a consumer's. They
are loaded when they are first used: executors import this package too, and have neither the coordinator's protocol nor
msgspec.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from spark_kcoord.extras import naming_the_extra

if TYPE_CHECKING:
    from spark_kcoord.consumer import AsyncConsumer, Consumer
    from spark_kcoord.errors import DataLossError, KcoordError, OptionError, UnreadBatchError
    from spark_kcoord.source.group_batch.batch import GroupBatch, batch
    from spark_kcoord.source.listeners.attachment import Attachment, attach
    from spark_kcoord.source.listeners.lag_listener import LagListener, LagReport

__all__ = [
    "AsyncConsumer",
    "Attachment",
    "Consumer",
    "DataLossError",
    "GroupBatch",
    "KcoordError",
    "LagListener",
    "LagReport",
    "OptionError",
    "UnreadBatchError",
    "attach",
    "batch",
]

_HOMES: Final = {
    "AsyncConsumer": "consumer",
    "Attachment": "source.listeners.attachment",
    "Consumer": "consumer",
    "DataLossError": "errors",
    "GroupBatch": "source.group_batch.batch",
    "KcoordError": "errors",
    "LagListener": "source.listeners.lag_listener",
    "LagReport": "source.listeners.lag_listener",
    "OptionError": "errors",
    "UnreadBatchError": "errors",
    "attach": "source.listeners.attachment",
    "batch": "source.group_batch.batch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'spark_kcoord' has no attribute '{name}'")
    with naming_the_extra(f"spark_kcoord.{name}"):
        return getattr(importlib.import_module(f"spark_kcoord.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
