"""The stream reader of a query that is refused: whatever Spark asks of it first is answered with the error.

Spark cannot tell an error that comes while a stream reader is made: what it shows is one of its own, about a variable
without a value, with ours among the frames. Before 4.2 Spark asks with fewer arguments and has fewer classes; there too
it gets the error. Opens nothing.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from spark_kcoord.errors import KcoordError
from spark_kcoord.source.process.told_alone import told_alone

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:
    SupportsTriggerAvailableNow = object

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # untyped
    """Raises the error with which a query was refused."""

    def __init__(self, error: KcoordError) -> None:
        self._error = error

    @told_alone
    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        """Raise the error."""
        self._refuse()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: ARG002, N802
        """Raise the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def read(self, partition: Any) -> Any:  # noqa: ARG002
        """Raise the error."""
        self._refuse()
