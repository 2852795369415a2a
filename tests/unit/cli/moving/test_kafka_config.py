"""Files with Kafka's own settings, and the positions that are made of what a group of Kafka and a group here have."""

from pathlib import Path

import pytest
from kafka.errors import InvalidCommitOffsetSizeError, NoError, TopicAuthorizationFailedError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPartition

from coordinator.cli.moving.kafka_groups import Committed, KafkaGroup, KafkaGroupError, KafkaGroups, read_kafka_config
from coordinator.cli.moving.ways_out import StartingOffsets, for_kafka, planned, starting_offsets, written
from coordinator.client.security import SecurityError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimState, CommittedOffset, PartitionDescription, ResetResult

T0, T1 = ("t", 0), ("t", 1)
SECRET = "c4n4ry"


def config(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "kafka.properties"
    path.write_text(text)
    path.chmod(mode)
    return path


class TestConfig:
    def test_kafkas_names_are_taken_with_and_without_the_prefix(self, tmp_path: Path) -> None:
        text = "# of our tools\nsecurity.protocol=SASL_SSL\n\nkafka.sasl.mechanism = PLAIN\nmax.poll.records=7\n"
        assert read_kafka_config(config(tmp_path, text)) == {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
        }

    def test_without_a_file_there_is_nothing(self) -> None:
        assert read_kafka_config(None) == {}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("security.protocl=SSL", "did you mean security.protocol?"),
            ("sasl.password", "line 1: is not NAME=VALUE"),
            ("client.id=a\nclient.id=b", "line 2: client.id is given twice"),
            ("ssl.keystore.password=c4n4ry", "ssl.keystore.password cannot be used here"),
        ],
    )
    def test_what_is_wrong_is_said_and_no_value_shown(self, tmp_path: Path, text: str, said: str) -> None:
        with pytest.raises(SecurityError) as refused:
            read_kafka_config(config(tmp_path, text))
        assert said in str(refused.value)
        assert SECRET not in str(refused.value)

    def test_password_that_others_may_read_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SecurityError, match=r"holds sasl\.password and may be read by others: `chmod 600"):
            read_kafka_config(config(tmp_path, f"sasl.password={SECRET}", 0o640))


@pytest.mark.parametrize(
    ("state", "has_members", "exists"),
    [
        ("Stable", True, True),
        ("PreparingRebalance", True, True),
        ("Assigning", True, True),
        ("Empty", False, True),
        ("Dead", False, False),
        ("", False, False),
    ],
)
def test_states_of_a_group_of_kafka(state: str, has_members: bool, exists: bool) -> None:
    group = KafkaGroup("g", state, "classic", None, {})
    assert (group.has_members, group.exists) == (has_members, exists)


def test_starting_offsets_name_every_partition_and_guess_none() -> None:
    claim = Claim("t", "id", 1, 4, 60, 80)
    found = starting_offsets(
        (
            PartitionDescription("t", 0, 50),
            PartitionDescription("t", 1, claim=claim, claim_state=ClaimState.RUNNING),
            PartitionDescription("u", 0),
        ),
        [("u", 1)],
    )
    assert found == StartingOffsets({"t": {"0": 50, "1": 60}, "u": {"0": -2, "1": -2}}, 1, 2)


def test_kafkas_group_is_given_epochs_and_metadata_and_told_where_others_come_from() -> None:
    offsets = (CommittedOffset("t", "id", 0, 50, 4, "note", 1), CommittedOffset("t", "id", 1, 60, None, "", 1))
    assert for_kafka(offsets, "from g") == {T0: Committed(50, 4, "note"), T1: Committed(60, None, "from g")}


def test_kafkas_group_is_not_taken_back_unless_told() -> None:
    wanted, there = {T0: Committed(50), T1: Committed(60)}, {T0: Committed(55)}
    results, kept = planned(wanted, there, moves_back=False)
    assert [(result.error, result.old_offset, result.new_offset) for result in results] == [
        (ErrorCode.INVALID_REQUEST, 55, 50),
        (ErrorCode.NONE, None, 60),
    ]
    assert kept == 1
    assert planned(wanted, there, moves_back=True)[1] == 0


def test_what_kafka_refuses_is_told_partition_by_partition() -> None:
    results = [ResetResult(*T0, old_offset=1, new_offset=2), ResetResult(*T1, new_offset=3)]
    first, second = written(results, {T0: "the group has members by now", T1: ""})
    assert (first.error, first.message) == (ErrorCode.INVALID_REQUEST, "the group has members by now")
    assert second == results[1]


def test_a_partition_of_which_kafkas_answer_says_nothing_is_not_told_as_written() -> None:
    class ShortAdmin:
        def alter_group_offsets(self, _: str, wanted: dict[KafkaPartition, object]) -> dict[KafkaPartition, object]:
            return dict.fromkeys(list(wanted)[:1], NoError)

    refused = KafkaGroups(ShortAdmin(), 1.0).write("g", {T0: Committed(1), T1: Committed(2)})
    assert refused[T0] == ""
    assert "has not said whether it took it" in refused[T1]


class WholeAdmin:
    """A Kafka that takes what one record batch of its own topic of offsets has room for, and refuses the rest whole."""

    MOST_BYTES = 1024 * 1024

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.asked: list[int] = []
        self.taken: dict[tuple[str, int], int] = {}
        self._fails_at = fails_at

    def alter_group_offsets(
        self, group: str, wanted: dict[KafkaPartition, OffsetAndMetadata]
    ) -> dict[KafkaPartition, object]:
        if len(self.asked) == self._fails_at:
            raise TopicAuthorizationFailedError("not you")
        self.asked.append(len(wanted))
        texts = [len(group.encode()) + len(part.topic) + len(each.metadata.encode()) for part, each in wanted.items()]
        if sum(texts) + 50 * len(texts) > self.MOST_BYTES:
            return dict.fromkeys(wanted, InvalidCommitOffsetSizeError)
        self.taken |= {tuple(part): each.offset for part, each in wanted.items()}
        return dict.fromkeys(wanted, NoError)


@pytest.mark.parametrize(("partitions", "letters", "parts"), [(10_000, 70, 6), (2_000, 4_096, 33), (1, 4_096, 1)])
def test_very_many_offsets_are_written_in_parts_that_kafka_has_room_for(
    partitions: int, letters: int, parts: int
) -> None:
    admin = WholeAdmin()
    wanted = {("events", number): Committed(number, None, "é" * (letters // 2)) for number in range(partitions)}
    assert set(KafkaGroups(admin, 1.0).write("ingest", wanted).values()) == {""}
    assert admin.taken == {partition: each.offset for partition, each in wanted.items()}
    assert len(admin.asked) == parts


def test_parts_that_were_written_before_kafka_failed_are_told_as_written() -> None:
    admin = WholeAdmin(fails_at=1)
    wanted = {("events", number): Committed(number, None, "x" * 100) for number in range(10_000)}
    refused = KafkaGroups(admin, 1.0).write("ingest", wanted)
    assert [partition for partition, why in refused.items() if not why] == list(admin.taken)
    assert {why for why in refused.values() if why} == {
        "Kafka's group 'ingest' could not be asked about: TopicAuthorizationFailedError: not you"
    }
    with pytest.raises(KafkaGroupError):
        KafkaGroups(WholeAdmin(fails_at=0), 1.0).write("ingest", wanted)
