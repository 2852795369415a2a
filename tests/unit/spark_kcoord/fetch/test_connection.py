"""Connections to brokers of which nobody has told."""

from functools import partial

import kafka.errors as kafka_errors
import pytest
from kafka.protocol.metadata import MetadataRequest

from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.options.kafka_settings import KafkaSettings


def test_broker_that_the_last_metadata_did_not_name_is_one_to_ask_again() -> None:
    client = KafkaClient(KafkaSettings(servers=("127.0.0.1:1",), client=(("client_id", "tests"),)))
    try:
        with pytest.raises(kafka_errors.NodeNotReadyError, match="broker 9 was not there") as raised:
            client.run(partial(client.send, 9, MetadataRequest(topics=[])), 5)
    finally:
        client.close()

    assert raised.value.retriable
