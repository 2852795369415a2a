"""Nothing from outside becomes code: what could do that is not in the product, or stands here with a reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = (
    *(path for folder in ("coordinator", "spark_kcoord", "jobs") for path in sorted((ROOT / folder).rglob("*.py"))),
    *(ROOT / name for name in ("kcoord/__init__.py", "pyspark_kcoord.py")),
)
MODULES = frozenset(
    {"pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "yaml", "code", "codeop", "runpy"}
)
"""Modules by which bytes become objects of any class, or code."""
CALLS = frozenset({"eval", "exec", "compile", "__import__", "import_module"})
"""Functions by which text becomes code, or names a module that is run."""
MEANT = {
    ("coordinator/cli/loading.py", "import_module"): "of a table of our own verbs, when one is asked for",
    ("coordinator/cli/parts/tables.py", "yaml"): "to write; none is read",
    ("kcoord/__init__.py", "import_module"): "of a table of our own names, when one is first used",
    ("spark_kcoord/fetch/decoding/decode.py", "import_module"): "of our two decoders",
    ("spark_kcoord/__init__.py", "import_module"): "of a table of our own names, when one is first used",
    ("spark_kcoord/source/process/early_imports.py", "import_module"): "of a list in the same file",
}


def ways_to_code(source: str) -> list[str]:
    """Return the names by which a file could make code of what it is given."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [one.name for one in names if one.name.split(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name, value=ast.Name(id="importlib"))):
                found += [name] if name in CALLS else []
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                found.append("shell=True")
            case _:
                pass
    return found


def test_the_product_has_no_way_from_what_it_is_given_to_code() -> None:
    assert len(PRODUCT) > 250
    found = {(path.relative_to(ROOT).as_posix(), name) for path in PRODUCT for name in ways_to_code(path.read_text())}
    assert found == set(MEANT)


@pytest.mark.parametrize(
    ("source", "way"),
    [
        ("import pickle", "pickle"),
        ("def f(x):\n    from marshal import loads", "marshal"),
        ("import yaml.loader as y", "yaml.loader"),
        ("eval(x)", "eval"),
        ("importlib.import_module(name)", "import_module"),
        ("subprocess.run(line, shell=True)", "shell=True"),
    ],
)
def test_each_way_is_seen(source: str, way: str) -> None:
    assert ways_to_code(source) == [way]
    assert ways_to_code("import re\nre.compile('a')\nimport msgspec\nself.compile(x)") == []
