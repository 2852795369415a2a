"""The README's Python examples: what they call takes what they give, and their options are the source's."""

import ast
import re
from pathlib import Path
from typing import Literal

import pytest

from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.options.source_options import parse_options

README = Path(__file__).resolve().parents[3] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def example_with(word: str) -> ast.Module:
    found = [example for example in EXAMPLES if word in example]
    assert len(found) == 1, f"{len(found)} examples with {word}"
    return ast.parse(found[0])


def options_of(example: ast.Module) -> dict[str, str]:
    """Return what an example says with .option(), and its dictionaries."""
    options: dict[str, str] = {}
    for node in ast.walk(example):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "option":
            name, text = (ast.literal_eval(argument) for argument in node.args)
            options[name] = text
        elif isinstance(node, ast.Dict):
            options |= ast.literal_eval(node)
    return options


@pytest.mark.parametrize(
    ("word", "mode"),
    [("readStream", "stream"), ("spark.read.", "batch"), ("spark_kcoord.batch", "group batch")],
)
def test_options_of_an_example_can_be_given(word: str, mode: Literal["stream", "batch", "group batch"]) -> None:
    of_the_sink = {"path", "checkpointLocation"}
    given = {name: text for name, text in options_of(example_with(word)).items() if name not in of_the_sink}
    assert parse_options(given, mode).subscription.topics == ("events",)


def test_settings_of_the_consumer_example_can_be_made() -> None:
    (made,) = [
        node
        for node in ast.walk(example_with("import Consumer"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Consumer"
    ]
    assert [ast.literal_eval(topic) for topic in made.args] == ["events"]
    settings = parse_settings({each.arg or "": ast.literal_eval(each.value) for each in made.keywords})
    assert (settings.group_id, settings.coordinators) == ("ingest", (("127.0.0.1", 9292),))
