"""One rule of durations: what one place takes, every place takes."""

import contextlib
from collections.abc import Callable

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as some

from coordinator.cli.parts.asking import parse_timeout
from coordinator.cli.parts.reset_target import where_to
from coordinator.cli.verbs.waiting.wait import parse_seconds
from coordinator.protocol.text.durations import parse_duration_ms
from spark_kcoord.errors import OptionError
from spark_kcoord.options.kinds import duration_ms, spark_duration_ms

DURATIONS = [
    *(("15m", 900_000), ("15 min", 900_000), ("1.5s", 1_500), ("500ms", 500), ("1h", 3_600_000), ("2d", 172_800_000)),
    *(("PT15M", 900_000), ("P1DT2H", 93_600_000), ("pt0.5s", 500), ("PT1H1M1.005S", 3_661_005), ("P2D", 172_800_000)),
]


@pytest.mark.parametrize(("text", "ms"), [*DURATIONS, ("0s", 0), ("999us", 0), (" 10S ", 10_000)])
def test_durations_are_read(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


def by_reset(text: str) -> int:
    where = where_to(
        to_earliest=False,
        to_latest=False,
        to_current=False,
        to_offset=None,
        to_datetime=None,
        by_duration=text,
        shift_by=None,
    )
    assert where is not None
    assert where.value is not None
    return where.value


def by_wait(text: str) -> int:
    return round(parse_seconds(text) * 1000)


def by_option(text: str) -> int:
    return int(duration_ms("1ms", "30d").read("kcoord.session.timeout", text))


def by_option_of_spark(text: str) -> int:
    return int(spark_duration_ms("30d").read("maxTriggerDelay", text))


WHERE_DURATIONS_COME_IN = [by_reset, by_wait, by_option, by_option_of_spark]


@pytest.mark.parametrize("read", WHERE_DURATIONS_COME_IN, ids=lambda read: read.__name__)
@pytest.mark.parametrize(("text", "ms"), DURATIONS)
def test_every_place_reads_a_duration_alike(read: Callable[[str], int], text: str, ms: int) -> None:
    assert read(text) == ms


@pytest.mark.parametrize("read", WHERE_DURATIONS_COME_IN, ids=lambda read: read.__name__)
@pytest.mark.parametrize(
    "text", ["P", "PT", "P1Y", "PT-5M", "", "soon", "-5m", "15 minutes", "1e3s", "٣s", "9" * 13, "9" * 12 + "d"]
)
def test_every_place_refuses_what_is_none(read: Callable[[str], int], text: str) -> None:
    with pytest.raises((typer.BadParameter, OptionError)):
        read(text)


@pytest.mark.parametrize(("text", "seconds"), [("10", 10.0), ("0.5", 0.5), ("30s", 30.0), ("PT2M", 120.0)])
def test_the_time_out_of_a_verb_is_seconds_unless_it_has_a_unit(text: str, seconds: float) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["0", "11m", "later"])
def test_a_time_out_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"from 0\.1 s to 10 m|no duration"):
        parse_timeout(text)


def test_a_number_without_a_unit_says_so() -> None:
    with pytest.raises(ValueError, match="'15' has no unit, as 15m, 90s, 500ms or PT15M have"):
        parse_duration_ms("15")


@pytest.mark.parametrize("text", ["106751991168d", "P106751991168D", f"P{'9' * 12}DT{'9' * 12}H"])
def test_a_duration_that_no_message_holds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than 9223372036854775807 ms"):
        parse_duration_ms(text)


def test_the_longest_duration_of_whole_days_is_read() -> None:
    assert 2**63 > parse_duration_ms("106751991167d") > 2**63 - 86_400_000


@given(some.text(max_size=12), some.sampled_from([None, "ms", "s"]))
def test_whatever_is_typed_is_a_duration_or_refused(text: str, bare_unit: str | None) -> None:
    with contextlib.suppress(ValueError):
        assert parse_duration_ms(text, bare_unit=bare_unit) >= 0
