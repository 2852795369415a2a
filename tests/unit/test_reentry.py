"""Locks that a signal may come within: Ctrl-C leaves none of them locked, and no handler waits for its own thread.

A signal's handler runs on the main thread between two steps of Python. Where it raises, as Ctrl-C does, a `with` whose
entrance and end are Python is left in the middle: those of a Condition are, those of a Lock and an RLock are not. Where
it takes a plain Lock that its thread holds, it waits for ever.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_PROGRAMS = sorted((ROOT / "spark_kcoord").rglob("*.py"))
"""Code that runs in programs of users, on threads that Ctrl-C ends calls of."""
WAY_OF_A_LINE = tuple(
    ROOT / "coordinator" / "runtime" / name
    for name in ("process/signals.py", "process/logs.py", "process/log_lines.py", "figures/lines.py")
)
"""What a node's handlers run through, which log."""


def entered_conditions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each Condition that is entered by a `with`."""
    made = {ast.unparse(target) for target, value in _assignments(tree) if _is_call_of(value, "Condition")}
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if ast.unparse(item.context_expr) in made:
                    yield node.lineno, ast.unparse(item.context_expr)


def plain_locks(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each Lock that is made."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_call_of(node, "Lock"):
            yield node.lineno


def _assignments(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield target, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.target, node.value


def _is_call_of(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in (f"threading.{name}", name)


def test_no_code_in_programs_of_users_enters_a_condition_but_by_its_lock() -> None:
    found = {
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in OF_PROGRAMS
        for line, name in entered_conditions(ast.parse(file.read_text()))
    }
    assert not found, "enter the RLock that the Condition is made with"


@pytest.mark.parametrize("file", WAY_OF_A_LINE, ids=lambda file: file.name)
def test_a_line_that_a_handler_logs_meets_no_lock_that_its_own_thread_may_hold(file: Path) -> None:
    assert not list(plain_locks(ast.parse(file.read_text())))


def test_the_looks_find_what_they_look_for() -> None:
    tree = ast.parse(
        "self._changed = threading.Condition()\n"
        "self._lock = threading.RLock()\n"
        "plain = threading.Lock()\n"
        "with self._lock, self._changed:\n"
        "    pass\n"
    )
    assert list(entered_conditions(tree)) == [(4, "self._changed")]
    assert list(plain_locks(tree)) == [3]
