"""An error of ours reaches Spark as its sentence, without the frames of the process that found it.

Spark shows what its long-lived process beside the driver raises, with every frame of ours and its own in between; who
reads it needs the sentence. That process serves one query and ends with the error, so that it may be told to leave the
frames out, unless somebody has chosen (`SPARK_HIDE_TRACEBACK`). They are logged at the level DEBUG. Stdlib only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from spark_kcoord.errors import KcoordError

__all__ = ["HIDES_FRAMES", "told_alone"]

HIDES_FRAMES: Final = "SPARK_HIDE_TRACEBACK"
"""The variable that Spark's workers read, in their own environment, when they tell of an error."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


def told_alone(call: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Return a call of Spark's whose KcoordErrors are told without frames; other errors are bugs and keep them."""

    @wraps(call)
    def called(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        try:
            return call(*arguments, **named)
        except KcoordError as error:
            os.environ.setdefault(HIDES_FRAMES, "1")
            _log.debug("%s failed", call.__name__, exc_info=error)
            raise

    return called
