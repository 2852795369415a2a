"""Jars come into the cache whole or not at all, by one process at a time; a script plays Java and Ivy."""

import hashlib
import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.java.jars import JarProgress, JarSet, Module, proxy_properties, resolve_jars

JARS = JarSet("toys", (Module("org.example", "toy", "1.0"),), jar_count=2)
GOOD_IVY = r"""
echo run >> "$RUNS"
case " $* " in *" -types jar bundle "*) ;; *) exit 9 ;; esac
echo "	found org.example#toy;1.0 in public"
echo "	[SUCCESSFUL ] org.example#toy;1.0!toy.jar (9ms)"
for last; do :; done
home=${last%/*}
mkdir -p "$home"
echo one > "$home/toy-1.0.jar"
echo two > "$home/bricks-2.0.jar"
"""


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the script that plays Java; the file `runs` beside it gets a line at each run."""
    script = tmp_path / "bin" / "java"
    script.parent.mkdir()
    script.touch(mode=0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KCOORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    play(script, GOOD_IVY)
    return script


def play(script: Path, ivy: str) -> None:
    script.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {{ echo \'version "17"\' >&2; exit 0; }}\n{ivy}')


def runs(ivy: Path) -> int:
    return len((ivy.parents[1] / "runs").read_text().splitlines())


def test_jars_are_fetched_once_and_progress_is_told(ivy: Path) -> None:
    told: list[JarProgress] = []
    jars = resolve_jars(JARS, told.append)
    assert [jar.name for jar in jars] == ["bricks-2.0.jar", "toy-1.0.jar"]
    assert [(step.doing, step.done, step.total) for step in told] == [
        ("looking up", 0, 2),
        ("looking up", 1, 2),
        ("downloading", 1, 2),
    ]
    assert resolve_jars(JARS) == jars
    assert runs(ivy) == 1


@pytest.mark.parametrize("damage", ["marker", "missing", "shorter"])
def test_a_damaged_set_is_fetched_again(ivy: Path, damage: str) -> None:
    jars = resolve_jars(JARS)
    match damage:
        case "marker":
            (jars[0].parent / ".complete").unlink()
        case "missing":
            jars[0].unlink()
        case _:
            jars[1].write_text("")
    assert resolve_jars(JARS) == jars
    assert [jar.read_text() for jar in jars] == ["two\n", "one\n"]
    assert runs(ivy) == 2


def test_a_failed_download_says_what_failed_and_leaves_no_set(ivy: Path, tmp_path: Path) -> None:
    play(
        ivy,
        'echo run >> "$RUNS"\necho ":: UNRESOLVED DEPENDENCIES: org.example#toy;1.0: not found"\nexit 1\n',
    )
    with pytest.raises(LocalServiceError) as error:
        resolve_jars(JARS)
    assert "could not be fetched from Maven Central: check the network, set HTTPS_PROXY" in str(error.value)
    assert "org.example#toy;1.0: not found" in str(error.value)
    assert runs(ivy) == 3
    assert list((tmp_path / "cache" / "jars").iterdir()) == []

    play(ivy, GOOD_IVY)
    assert len(resolve_jars(JARS)) == 2


def test_a_set_with_a_jar_too_few_is_refused(ivy: Path) -> None:
    play(ivy, GOOD_IVY.replace('echo two > "$home/bricks-2.0.jar"', ""))
    with pytest.raises(LocalServiceError, match="gave 1 jars for toys instead of 2"):
        resolve_jars(JARS)


def test_a_jar_with_another_checksum_is_refused_and_leaves_no_set(ivy: Path, tmp_path: Path) -> None:
    good = hashlib.sha256(b"one\n").hexdigest()
    assert resolve_jars(JarSet("good", (Module("org.example", "toy", "1.0", sha256=good),), 2))
    bad = JarSet("bad", (Module("org.example", "toy", "1.0", sha256="0" * 64),), 2)
    with pytest.raises(LocalServiceError, match=rf"toy-1\.0\.jar is not what bad needs: its SHA-256 is {good} instead"):
        resolve_jars(bad)
    assert [home.name.split("-")[0] for home in (tmp_path / "cache" / "jars").iterdir()] == ["good"]


def test_processes_that_want_the_same_jars_fetch_them_once(ivy: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        answers = pool.map(resolve_jars, [JARS] * 3)
    assert answers[0] == answers[1] == answers[2]
    assert runs(ivy) == 1


def test_without_pyspark_it_says_what_to_install(ivy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(LocalServiceError, match=r"install `kcoord\[spark\]`"):
        resolve_jars(JARS)


def test_the_proxies_of_the_environment_reach_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert proxy_properties() == {}
    monkeypatch.setenv("HTTPS_PROXY", "http://me:p%40ss@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.example.org")
    assert proxy_properties() == {
        "https.proxyHost": "proxy.example",
        "https.proxyPort": "3128",
        "https.proxyUser": "me",
        "https.proxyPassword": "p@ss",
        "http.proxyUser": "me",
        "http.proxyPassword": "p@ss",
        "jdk.http.auth.tunneling.disabledSchemes": "",
        "http.nonProxyHosts": "localhost|*.localhost|example.org|*.example.org",
    }
