"""Flights: every one of the data set, known by its line, keyed by its aircraft."""

import zipfile
from pathlib import Path

import msgspec
import pytest

from coordinator.demo.data.flights import FIRST_LINE, FLIGHTS, Flight, find_archive, read_flights
from coordinator.demo.errors import DemoError

HEADER = "year,carrier,tailnum,dep_delay"


def an_archive(directory: Path, *rows: str) -> Path:
    path = directory / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("flights.csv", "\n".join([HEADER, *rows]) + "\n")
    return path


def test_the_data_set_has_every_flight_once_and_in_line() -> None:
    lines = [flight.line for flight in read_flights(find_archive())]
    assert lines == list(range(FIRST_LINE, FIRST_LINE + FLIGHTS))


def test_a_flight_is_json_keyed_by_its_tail_number(tmp_path: Path) -> None:
    (flight,) = read_flights(an_archive(tmp_path, "2013,UA,N14228,-2"))
    assert flight.key == b"N14228"
    assert msgspec.json.decode(flight.value) == {
        "line": 2,
        "year": 2013,
        "carrier": "UA",
        "tailnum": "N14228",
        "dep_delay": -2,
    }


def test_what_the_csv_does_not_know_is_null_and_no_key(tmp_path: Path) -> None:
    flights = list(read_flights(an_archive(tmp_path, "2013,UA,NA,NA", "2013,UA,,")))
    value = {"year": 2013, "carrier": "UA", "tailnum": None, "dep_delay": None}
    assert flights == [Flight(line, None, msgspec.json.encode({"line": line, **value})) for line in (2, 3)]


def test_an_excerpt_ends_at_its_limit(tmp_path: Path) -> None:
    archive = an_archive(tmp_path, *["2013,UA,N1,0"] * 5)
    assert [flight.line for flight in read_flights(archive, 3)] == [2, 3, 4]


@pytest.mark.parametrize("content", ["", HEADER + "\n2013,UA\n", HEADER + "\nnext year,UA,N1,0\n"])
def test_a_file_that_is_not_the_data_set_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("flights.csv", content)
    with pytest.raises(DemoError, match="cannot be read"):
        list(read_flights(path))


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.zip"
    path.write_text("no archive")
    with pytest.raises(DemoError, match="cannot be read"):
        list(read_flights(path))
