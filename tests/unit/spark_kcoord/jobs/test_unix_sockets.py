"""Unix sockets between Spark and Python: on where they can work and nobody has said anything."""

import socket
import tempfile
from pathlib import Path

import pytest

from spark_kcoord.jobs.unix_sockets import DIRECTORY, ENABLED, fits_sockets, socket_settings, why_no_sockets

LOCAL = {"spark.master": "local[2]"}
LONG = "/tmp/" + "x" * 70
ON = {ENABLED: "true"}


@pytest.mark.parametrize(
    ("conf", "environ", "directory", "expected"),
    [
        (LOCAL, {}, "/tmp", ON),
        ({}, {}, "/tmp", ON),
        ({"spark.master": "spark://h:7077"}, {}, "/tmp", ON),
        ({"spark.master": "yarn"}, {}, "/tmp", {}),
        ({"spark.master": "yarn", DIRECTORY: "/tmp"}, {}, LONG, ON),
        (LOCAL | {ENABLED: "false"}, {}, "/tmp", {}),
        (LOCAL | {ENABLED: "true"}, {}, "/tmp", {}),
        (LOCAL, {"PYSPARK_UDS_MODE": "false"}, "/tmp", {}),
        (LOCAL, {}, LONG, {}),
        (LOCAL | {DIRECTORY: "/run/s"}, {}, LONG, ON),
        (LOCAL | {DIRECTORY: LONG}, {}, "/tmp", {}),
    ],
)
def test_sockets_are_asked_for_only_where_they_can_work_and_nobody_has_spoken(
    conf: dict[str, str], environ: dict[str, str], directory: str, expected: dict[str, str]
) -> None:
    assert socket_settings(conf, environ, directory) == expected


def test_sockets_are_not_asked_for_on_a_system_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")

    assert socket_settings(LOCAL, {}, "/tmp") == {}


def test_path_that_fits_is_one_that_the_system_binds() -> None:
    name = "." + "0" * 36 + ".sock"
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        lengths = range(50, 80)
        for length in lengths:
            directory = Path(folder, "d" * (length - len(folder) - 1))
            directory.mkdir()
            assert len(str(directory)) == length
            listener = socket.socket(socket.AF_UNIX)
            try:
                listener.bind(str(directory / name))
                is_bound = True
            except OSError:
                is_bound = False
            finally:
                listener.close()
            assert fits_sockets(str(directory)) == is_bound


def test_session_that_could_not_start_is_explained_before_it_is_started() -> None:
    why = why_no_sockets(LOCAL | ON, LONG)

    assert why is not None
    assert all(word in why for word in (LONG, ENABLED, DIRECTORY, "false"))
    assert why_no_sockets(LOCAL | ON, "/tmp") is None
    assert why_no_sockets(LOCAL | ON | {DIRECTORY: "/tmp"}, LONG) is None
    assert why_no_sockets(LOCAL | {ENABLED: "false"}, LONG) is None
    assert why_no_sockets(LOCAL, LONG) is None
