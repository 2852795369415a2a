"""Runs tests with each decoder of this install: the NumPy one always, the compiled one where it was built."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_kcoord.fetch.decoding.decode import DECODERS, chosen_decoder, load_decoder


def available_decoders() -> list[str]:
    """Return the names of the decoders that this install has."""
    names = []
    for name in DECODERS:
        try:
            load_decoder(name)
        except ImportError:
            continue
        names.append(name)
    return names


@contextmanager
def decoding_with(name: str) -> Iterator[None]:
    """Make a decoder the chosen one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KCOORD_DECODER", name)
        chosen_decoder.cache_clear()
        yield
    chosen_decoder.cache_clear()


@pytest.fixture(scope="module", params=available_decoders(), autouse=True)
def decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make each decoder the chosen one in turn; a module that imports this runs all its tests with each."""
    with decoding_with(request.param):
        yield request.param
