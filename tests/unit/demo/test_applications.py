"""The demo finds the job and Spark's settings in a checkout and in an install, or says what to install."""

import importlib.util
import sys
from pathlib import Path

import pytest

from coordinator.demo import applications
from coordinator.demo.applications import find_conf, find_job
from coordinator.demo.errors import DemoError

ROOT = Path(__file__).parents[3]


def test_a_checkout_has_the_job_and_the_settings() -> None:
    assert find_job() == ROOT / "spark_kcoord" / "jobs" / "ingest_stream.py"
    assert find_conf() == ROOT / "conf"


def test_an_install_has_its_settings_beside_its_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "share" / "kcoord" / "conf"
    monkeypatch.setattr(applications, "__file__", str(tmp_path / "lib" / "coordinator" / "demo" / "applications.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(DemoError, match="install kcoord anew"):
        find_conf()
    installed.mkdir(parents=True)
    (installed / "spark-defaults.conf").touch()
    assert find_conf() == installed


def test_without_the_jobs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DemoError, match="install kcoord with its extra `demo`"):
        find_job()
