"""Operators who drain nodes, move shards and have leaders elected while everything else happens.

They ask as `kcoord` does, and past the proxies only to find out whom to ask. A node that is ill refuses or does not
answer, which is no fault: `put_back` asks until all is as it was.
"""

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress

from coordinator.client.changing import ask_controller, ask_node
from coordinator.client.request import RequestError
from coordinator.protocol.messages import DrainNode, ElectLeaders, ReassignShards
from coordinator.protocol.parts import ShardReplicas
from coordinator.protocol.text.addresses import Address

_WHO = "chaos"
_ASK_S = 3.0
_FEWEST = 2
"""Replicas that a shard keeps: as many as have to be in sync."""


class Operators:
    """Somebody at each of the tools; `nodes` are the ids, `addresses` where nodes are asked about the cluster."""

    def __init__(self, addresses: Sequence[Address], nodes: Sequence[int], shards: int, dice: random.Random) -> None:
        self._addresses = addresses
        self._nodes = nodes
        self._shards = shards
        self._dice = dice
        self._drained: set[int] = set()

    def drain(self) -> None:
        """Drain a node, if none is; otherwise take that back."""
        if self._drained:
            self._undrain()
            return
        number = self._dice.choice(self._nodes)
        self._drained.add(number)  # also where the answer does not come
        self._ask_drain(number, is_drained=True)

    def reassign(self) -> None:
        """Have some shards have two replicas or three, in another order."""
        shards = self._dice.sample(range(self._shards), self._dice.randint(1, self._shards))
        self._ask_reassign(
            [
                ShardReplicas(
                    shard, tuple(self._dice.sample(self._nodes, self._dice.randint(_FEWEST, len(self._nodes))))
                )
                for shard in shards
            ]
        )

    def elect(self) -> None:
        """Have every shard be led by its first replica now."""
        with suppress(RequestError):
            ask_controller(self._addresses, ElectLeaders(tuple(range(self._shards)), _WHO, is_dry_run=False), _ASK_S)

    def put_back(self, lessened: Iterable[int]) -> bool:
        """Take back what is drained, and have these shards have all replicas; say whether there was nothing to do."""
        shards = list(lessened)
        if not self._drained and not shards:
            return True
        self._undrain()
        self._ask_reassign(
            [ShardReplicas(shard, tuple(self._dice.sample(self._nodes, len(self._nodes)))) for shard in shards]
        )
        return False

    def _undrain(self) -> None:
        for number in list(self._drained):
            if self._ask_drain(number, is_drained=False):
                self._drained.discard(number)

    def _ask_drain(self, number: int, *, is_drained: bool) -> bool:
        try:
            ask_node(self._addresses, DrainNode(number, is_drained, _WHO, is_dry_run=False), _ASK_S)
        except RequestError:
            return False
        return True

    def _ask_reassign(self, shards: Sequence[ShardReplicas]) -> None:
        if not shards:
            return
        with suppress(RequestError):
            ask_controller(self._addresses, ReassignShards(tuple(shards), _WHO, is_dry_run=False), _ASK_S)
