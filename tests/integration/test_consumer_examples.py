"""The examples of the page about the consumer run as they stand, but for the addresses and the topic's name."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.kafka_topics import produce_numbers

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "CONSUMER.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(
    number: int, kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 3)
    example = (
        EXAMPLES[number]
        .replace("127.0.0.1:9292", coordinator.address)
        .replace("127.0.0.1:9092", kafka.bootstrap_servers)
        .replace('"events"', repr(name))
        .replace('group_id="', f'group_id="{name}-')
    )
    run = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip(), "it shows what it has read"
