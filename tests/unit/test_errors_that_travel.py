"""An error that is raised in one process and told in another is the same there: its kind, its text and all it says.

Those of a node's own rooms never leave their process, and what begins with an underscore never leaves its module.
"""

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import coordinator.client
import coordinator.protocol
import spark_kcoord
from coordinator.protocol.errors import ErrorCode
from spark_kcoord.consumer.errors import RecordDeserializationError
from spark_kcoord.consumer.values import TopicPartition

PACKAGES = (spark_kcoord, coordinator.client, coordinator.protocol)
GIVEN: dict[str, Any] = {
    "advice": "start it",
    "code": ErrorCode.CLAIM_CLOSED.name,
    "divergent_offsets": {TopicPartition("t", 0): 5},
    "doc_code": "KC-1004",
    "is_retriable": True,
    "may_be_done": True,
    "message": "why",
    "offset": 5,
    "partition": 1,
    "partitions": (TopicPartition("t", 1),),
    "refusal": ErrorCode.CLAIM_CLOSED.name,
    "refused": None,
    "result": {"t-1": "refused"},
    "text": "why",
    "topic": "t",
    "topics": ("t", "u"),
    "troubles": "nobody listens",
    "why": "why",
}
"""An argument for every parameter that a constructor of an error has, by its name."""
OTHERS: dict[str, dict[str, Any]] = {
    "ProtocolError": {"code": ErrorCode.CLAIM_CLOSED},
    "LocalProtocolError": {"code": ErrorCode.CLAIM_CLOSED},
    "RemoteProtocolError": {"code": ErrorCode.CLAIM_CLOSED},
    "WaitRefusedError": {"refusal": (ErrorCode.CLAIM_CLOSED, "it is closed")},
}
"""Arguments that are of another kind under the same name."""
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def kinds() -> list[type[Exception]]:
    found = {
        each
        for module in modules()
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, Exception)
        if each.__module__ == module.__name__ and not name.startswith("_")
    }
    return sorted(found, key=lambda kind: (kind.__module__, kind.__name__))


KINDS = kinds()


def made(kind: type[Exception]) -> Exception:
    parameters = list(inspect.signature(kind.__init__).parameters.values())
    given = GIVEN | OTHERS.get(kind.__name__, {})
    named = {one.name: given[one.name] for one in parameters[1:] if one.kind in NAMED}
    return kind(**named) if named else kind("why")


WAYS: dict[str, Callable[[Exception], Exception]] = {
    "pickled": lambda error: pickle.loads(pickle.dumps(error)),
    "pickled as Python 2 did": lambda error: pickle.loads(pickle.dumps(error, protocol=0)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
}


def test_all_families_are_found() -> None:
    names = {kind.__name__ for kind in KINDS}
    assert names >= {"RecordDeserializationError", "UnknownTopicError", "PartitionsRefusedError", "RequestTimeoutError"}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_an_error_is_the_same_in_another_process(kind: type[Exception], way: Callable[[Exception], Exception]) -> None:
    error = made(kind)
    error.add_note("while a task ran")
    back = way(error)
    assert type(back) is kind
    assert (str(back), back.args, vars(back)) == (str(error), error.args, vars(error))
    assert back.__notes__ == error.__notes__


def test_an_error_that_has_travelled_says_which_record_it_is_about() -> None:
    error = RecordDeserializationError("it is none", "t", 1, 5)
    back = pickle.loads(pickle.dumps(error))
    assert (back.topic, back.partition, back.offset, back.partitions) == ("t", 1, 5, (TopicPartition("t", 1),))
