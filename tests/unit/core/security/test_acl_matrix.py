"""The matrix of rights holds, covers every request, and a refusal does not tell what there is."""

from collections import defaultdict

import pytest

from coordinator.protocol.messages import RESPONSE_OF
from tests.acl_matrix.matrix import Cell, cells
from tests.acl_matrix.table import EXISTING, GROUPS, OF_GROUP


@pytest.fixture(scope="module")
def asked() -> list[Cell]:
    return list(cells())


def test_node_does_what_the_table_says(asked: list[Cell]) -> None:
    assert [cell for cell in asked if cell.is_wrong] == []
    assert len(asked) >= 500


def test_matrix_has_every_request(asked: list[Cell]) -> None:
    assert {cell.verb for cell in asked} == {kind.__name__ for kind in RESPONSE_OF}


def test_refusal_is_the_same_whether_there_is_such_a_group(asked: list[Cell]) -> None:
    said: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for cell in asked:
        if cell.verb in OF_GROUP and cell.resource in GROUPS and cell.said:
            said[cell.principal, cell.verb][cell.resource] = cell.said.replace(repr(cell.resource), "it")
    for texts in said.values():
        assert len(set(texts.values())) == 1
    assert any(set(texts) & set(EXISTING) and set(texts) - set(EXISTING) for texts in said.values())
    assert set(GROUPS) > set(EXISTING)
