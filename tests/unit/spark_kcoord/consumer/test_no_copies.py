"""A consumer is one: no copy is made of it that would end it, and one that is half made ends in silence."""

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from spark_kcoord.consumer.async_consumer import AsyncConsumer
from spark_kcoord.consumer.consumer import Consumer
from tests.helpers.fake_consuming import AsyncRig, Rig

COPIES: dict[str, Callable[[Any], Any]] = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickle.dumps}


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_a_consumer_is_not_copied_and_goes_on(make_copy: Callable[[Any], Any]) -> None:
    rig = Rig()
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        make_copy(rig)
    gc.collect()
    assert len(rig.offsets()) == 10
    rig.close()


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_an_asyncio_consumer_is_not_copied(make_copy: Callable[[Any], Any]) -> None:
    rig = AsyncRig(topics=())
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        make_copy(rig)


@pytest.mark.parametrize("kind", [Consumer, AsyncConsumer])
def test_a_consumer_whose_constructor_did_not_begin_ends_in_silence(kind: type[Any]) -> None:
    made = object.__new__(kind)
    made.__del__()
