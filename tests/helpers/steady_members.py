"""Members that commit without a pause while something is done to their cluster, and what they must not notice of it."""

import threading

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ResetPolicy
from coordinator.protocol.text.addresses import parse_addresses
from spark_kcoord.member.client import MemberClient
from spark_kcoord.member.settings import MemberSettings

PATIENCE_S = 60.0


class SteadyMember:
    """A member that commits what it owns, each time one further, from its first assignment until its block ends."""

    def __init__(self, addresses: str, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.results: list[ErrorCode] = []
        self.failures: list[Exception] = []
        self.owned: set[tuple[tuple[int, int], ...]] = set()
        """Partition and owner epoch of all that it owned at once, each time that it looked."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.client = MemberClient(
            MemberSettings(
                coordinators=parse_addresses(addresses),
                group_id=group,
                client_id="test",
                topics=(topic,),
                reset_policy=ResetPolicy("earliest"),
            )
        )

    def __enter__(self) -> "SteadyMember":
        self.client.join()
        self.client.wait_for_assignment(complete=True, timeout_s=PATIENCE_S)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self.client.close()

    @property
    def has_noticed_nothing(self) -> bool:
        """Say whether every commit was accepted and it has owned the same all the while, under the same epochs."""
        return not self.failures and set(self.results) == {ErrorCode.NONE} and len(self.owned) == 1

    def _work(self) -> None:
        while not self._is_over.wait(0.002):
            parts = self.client.assignment().partitions
            self.owned.add(tuple((part.partition, part.owner_epoch) for part in parts))
            offsets = [
                OffsetToCommit(self.topic, part.partition, len(self.results) + 1, part.owner_epoch) for part in parts
            ]
            try:
                self.results += [result.error for result in self.client.commit(offsets)]
            except Exception as error:  # noqa: BLE001 - whatever it is, a commit has failed
                self.failures.append(error)
