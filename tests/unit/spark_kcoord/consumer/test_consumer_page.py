"""The page about the consumer names every setting, call and error as the code has them."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kcoord
from spark_kcoord.consumer.settings import NOT_HERE, SETTINGS, WITHOUT_EFFECT

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "CONSUMER.md").read_text(encoding="utf-8")


def shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value)


def settings_table() -> str:
    lines = [f"| `{name}` | {shown(setting.default)} | {setting.meaning} |" for name, setting in SETTINGS.items()]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *lines])


def refused(names: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` ({why})" for name, why in names.items())


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert settings_table() in PAGE


def test_settings_of_the_library_that_mean_nothing_here_are_named_with_their_reason() -> None:
    assert refused(NOT_HERE) in PAGE
    assert refused(WITHOUT_EFFECT) in PAGE


def test_every_setting_of_the_library_is_known_one_way_or_the_other() -> None:
    from kafka import KafkaConsumer

    assert set(KafkaConsumer.DEFAULT_CONFIG) <= {*SETTINGS, *NOT_HERE, *WITHOUT_EFFECT}


def test_every_call_is_on_the_page() -> None:
    kinds = (kcoord.Consumer, kcoord.AsyncConsumer)
    calls = {name for kind in kinds for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
    assert {name for name in calls if f"`{name}" not in PAGE and f" {name}" not in PAGE} == set()


def test_every_error_is_on_the_page() -> None:
    bases = {"KcoordError", "ConsumerError", "RecordError"}
    assert {name for name in kcoord.errors.__all__ if name[0].isupper() and name not in PAGE} <= bases
