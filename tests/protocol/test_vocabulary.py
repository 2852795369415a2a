"""Words that travel: what is done with one that this end does not know."""

import msgspec
import pytest

from coordinator.protocol import parts
from coordinator.protocol.codec import decode_answer, decode_request, encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.vocabulary import VOCABULARY, Handover, IsolationLevel, PolicyKind, ResetKind
from tests.helpers.node_world import NodeWorld
from tests.helpers.sentences import says
from tests.helpers.wire_examples import MESSAGES, PARTS, REQUESTS
from tests.helpers.word_fields import word_fields

NEW = "a-word-of-tomorrow"
EXAMPLES = {type(value): value for value in (*MESSAGES, *PARTS)}
FIELDS = word_fields(EXAMPLES)


def test_a_word_is_said_once_in_its_list():
    assert all(len(kind.__members__) == len(list(kind)) for kind in VOCABULARY)


def test_a_word_is_plain_text_on_the_wire():
    for kind in VOCABULARY:
        assert [msgspec.msgpack.encode(word) for word in kind] == [msgspec.msgpack.encode(word.value) for word in kind]


@says("A word in an answer that is not known is handed over as it came.")
@pytest.mark.parametrize(("kind", "field", "words"), FIELDS, ids=[f"{k.__name__}.{f.name}" for k, f, _ in FIELDS])
def test_a_message_with_an_unknown_word_is_read(kind, field, words):
    assert NEW not in set(words)
    newer = msgspec.structs.replace(EXAMPLES[kind], **{field.name: NEW})
    if kind in {type(part) for part in PARTS}:
        decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(newer), type=kind)
    elif kind in {type(request) for request in REQUESTS}:
        decoded = decode_request(encode_message(newer))
    else:
        decoded = decode_answer(encode_message(newer))
    assert decoded == newer
    assert getattr(decoded, field.name) == NEW


@says("A word in a request that is not known is refused with INVALID_REQUEST; the text names the words that are.")
@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"handover": NEW}, Handover),
        ({"isolation_level": NEW}, IsolationLevel),
        ({"reset_policy": parts.ResetPolicy(NEW)}, PolicyKind),
    ],
    ids=["handover", "isolation_level", "reset_policy"],
)
def test_a_registration_with_an_unknown_word_is_refused(said, known):
    member = NodeWorld({"t": 1}).joining("m1", **said)
    response = member.register()
    assert response.error is ErrorCode.INVALID_REQUEST
    assert NEW in response.message
    assert all(word in response.message for word in known)


@says("A word in a request that is not known is refused with INVALID_REQUEST; the text names the words that are.")
def test_a_reset_to_an_unknown_place_is_refused():
    world = NodeWorld({"t": 1})
    world.join("m1")
    asked = ResetOffsets("g", (parts.ResetTarget("t", 0, NEW),), "ann@ops-1")
    response = world.connect().ask(asked, ResetOffsetsResponse)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert all(word in response.message for word in ResetKind)


@says("An assignor that is not known is passed over; UNSUPPORTED_ASSIGNOR refuses a member that names no other.")
def test_an_unknown_assignor_is_passed_over():
    world = NodeWorld({"t": 1})
    assert world.joining("m1", assignors=(NEW,)).register().error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert world.joining("m1", assignors=(NEW, "range")).register().error is ErrorCode.NONE
    assert world.describe().assignor == "range"
