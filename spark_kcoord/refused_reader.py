"""The stream reader of a query whose options are refused: whatever Spark asks of it first is answered with the error.

Spark cannot tell an error that comes while a stream reader is made: what it shows is one of its own, about a variable
without a value, with ours among the frames. Opens nothing.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from spark_kcoord.errors import OptionError
from spark_kcoord.told_alone import told_alone

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # untyped
    """Raises the error with which options were refused."""

    def __init__(self, error: OptionError) -> None:
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

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        """Raise the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def read(self, partition: Any) -> Any:  # noqa: ARG002
        """Raise the error."""
        self._refuse()
