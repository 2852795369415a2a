"""Ports for servers that are told theirs before they bind it: none of one that may come back is given to another."""

import os

import pytest

from coordinator.local.process import ports


def test_no_port_is_given_twice_though_nobody_listens_there() -> None:
    given = [ports.free_ports(3) for _ in range(200)]
    assert len({port for some in given for port in some}) == 600


def test_processes_side_by_side_draw_from_different_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for pid in (160, 161):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        drawn.append(ports.free_ports(20))
    assert max(drawn[0]) < min(drawn[1])


def test_a_process_whose_part_has_too_few_draws_from_the_whole_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 0)
    first_part = ports._LOWEST_PORT + 500
    monkeypatch.setattr(ports, "is_port_free", lambda port: port > first_part + 5_000)
    assert min(ports.free_ports(4)) > first_part
