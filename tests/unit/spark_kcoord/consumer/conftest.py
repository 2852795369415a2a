"""Fixtures of tests that make consumers and leave some open."""

import gc
from collections.abc import Iterator

import pytest

from tests.helpers.fake_consuming import Rig


@pytest.fixture
def closes_rigs() -> Iterator[None]:
    """Close the consumers that a test has made, before they are collected."""
    gc.disable()
    yield
    Rig.close_all()
    gc.enable()
