"""Ctrl-C while a consumer without a group finds its topics: all are found, and begin where they would have."""

import time
from collections.abc import Collection
from contextlib import suppress

import pytest

import spark_kcoord.consumer.conduct.flows
import spark_kcoord.consumer.conduct.growth
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.looks import together
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.consumer.subscription import Subscription
from spark_kcoord.fetch.tailing.fetched import AT_END
from tests.helpers.fake_consuming import FakeFetcher
from tests.helpers.processes import eventually
from tests.helpers.signal_within import SignalWithin

KEY = ("t", 0)


@pytest.fixture(autouse=True)
def _topics(monkeypatch: pytest.MonkeyPatch) -> None:
    def topics_of(_lookup: Lookup, _topics: Collection[str], _timeout_s: float) -> dict[tuple[str, int], str]:
        return {KEY: "id"}

    monkeypatch.setattr(Lookup, "topics_of", topics_of)


class Alone:
    """A consumer without a group that reads what is new in its topic."""

    def __init__(self) -> None:
        self.fetcher = FakeFetcher({})
        settings = parse_settings(together({"bootstrap_servers": "k:1"}, None, None))
        self.flows = Flows(settings, lambda: None, time.monotonic, fetcher=lambda *_: self.fetcher)
        self.flows.subscribe(Subscription(topics=("t",)), None)

    def attend(self) -> bool:
        for _ in self.flows.attend():
            raise AssertionError("nothing is waited for")
        return KEY in self.fetcher.wanted

    def attend_while(self, signal: SignalWithin) -> None:
        """Attend until something is wanted, or a signal has come."""
        with suppress(KeyboardInterrupt), signal.coming():
            while not self.attend():
                pass


@pytest.mark.timeout(120)
@pytest.mark.parametrize("code", [spark_kcoord.consumer.conduct.growth, spark_kcoord.consumer.conduct.flows])
def test_ctrl_c_while_topics_are_looked_up_leaves_them_found_and_begun_by_the_policy(code: object) -> None:
    file = str(code.__file__)  # type: ignore[attr-defined]
    wrong = []
    looked = SignalWithin(file)
    Alone().attend_while(looked)
    for place in dict.fromkeys(looked.steps):
        alone, signal = Alone(), SignalWithin(file, looked.steps.index(place) + 1)
        alone.attend_while(signal)
        if not eventually(alone.attend, 30):
            wrong.append(f"{place}: not found")
            continue
        position = alone.fetcher.wanted[KEY].position
        if position != AT_END:
            wrong.append(f"{place}: begun at {position}")
    assert not wrong
