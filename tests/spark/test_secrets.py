"""No secret of a read comes to light: not in the event log, the UI or its REST API, a plan, a log, a repr or an error.

Every secret that an option is declared to hold is planted, so that new ones are covered by being declared.
"""

import json
import logging
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import spark_kcoord
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.runtime.security.users_store import add_password
from spark_kcoord.errors import OptionError
from spark_kcoord.options.source_options import parse_options
from tests.helpers.canaries import OF_CLIENTS, OF_READS, canary, found_in, with_client_secret
from tests.helpers.certificates import Authority, lock
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.stream_application import NumberedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

KEPT = {"kafka.ssl.key.password": canary("kafka.ssl.key.password")}
"""A secret that a read without TLS has and does not use."""
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="{canary("kafka.sasl.jaas.config")}";'
    ),
}
"""A login that the broker, which knows none, does not answer as it should."""
NOWHERE = {
    "kcoord.bootstrap.servers": "127.0.0.1:1",
    "kcoord.group.id": "g",
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "subscribe": "t",
}
PAGES = ("/jobs/", "/stages/", "/environment/", "/SQL/", "/StreamingQuery/", "/executors/")


@pytest.fixture
def locked(kafka: LocalKafka, tmp_path: Path) -> Iterator[tuple[LocalCoordinator, dict[str, str]]]:
    """Return a node, and options by which somebody shows a certificate and logs in, the secrets of both canaries."""
    authority = Authority(tmp_path)
    own = authority.pair()
    name, password = "kcoord.ssl.key.password", "kcoord.sasl.password"
    users = tmp_path / "users"
    add_password(users, "alice", canary(password), ("SCRAM-SHA-256",), 4096)
    shown = lock(authority.pair("spark", common_name="spark"), canary(name))
    options = {
        "kcoord.security.protocol": "SASL_SSL",
        "kcoord.ssl.ca.location": str(authority.trusted),
        "kcoord.ssl.certificate.location": str(shown.certificate),
        "kcoord.ssl.key.location": str(shown.key),
        name: canary(name),
        "kcoord.sasl.mechanism": "SCRAM-SHA-256",
        "kcoord.sasl.username": "alice",
        password: canary(password),
    }
    settings = {
        "tls.certificate": own.certificate,
        "tls.key": own.key,
        "tls.trusted_certificates": authority.trusted,
        "tls.client_auth": "required",
        "authentication.mechanisms": "SCRAM-SHA-256",
        "authentication.users_file": users,
    }
    with LocalCoordinator(kafka.bootstrap_servers, tmp_path / "node", settings=settings) as node:
        yield node, options


def event_log(spark: "SparkSession") -> str:
    """Return all that Spark has noted of this session so far."""
    folder = Path(spark.conf.get("spark.eventLog.dir").removeprefix("file:"))
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def ui(spark: "SparkSession") -> Iterator[tuple[str, str]]:
    """Yield what the application shows by HTTP: pages, and every document about it of the REST API."""
    url = spark.sparkContext.uiWebUrl
    assert url is not None

    def get(path: str) -> str:
        with urllib.request.urlopen(url + path, timeout=60) as said:
            text: str = said.read().decode()
        return text

    for page in PAGES:
        yield page, get(page)
    root = f"/api/v1/applications/{spark.sparkContext.applicationId}"
    for name in ("environment", "jobs", "stages", "executors"):
        yield name, get(f"{root}/{name}")
    plans = get(f"{root}/sql?details=true&planDescription=true&length=10000")
    yield "sql", plans
    last = json.loads(plans)[-1]["id"]
    yield "a plan", get(f"/SQL/execution/?id={last}")


def test_neither_event_log_nor_ui_nor_logs_nor_errors_show_a_secret(
    spark: "SparkSession",
    kafka: LocalKafka,
    locked: tuple[LocalCoordinator, dict[str, str]],
    topic: Callable[..., str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for logger in ("spark_kcoord", "kafka"):
        caplog.set_level(logging.DEBUG, logger)
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    coordinator, secure = locked
    options = tuple(f"{key}={text}" for key, text in (KEPT | secure).items())
    stream = NumberedStream(tmp_path, coordinator.address, name, name, options)
    query = stream.start(spark, is_available_now=True)
    assert query.awaitTermination(150)
    assert stream.rows().total() == 10
    shown = [str(query.lastProgress), spark.streams.active]
    source = {
        "kcoord.bootstrap.servers": coordinator.address,
        "kcoord.group.id": f"{name}-batch",
        "subscribe": name,
        **KEPT,
        **secure,
    }
    frame = spark.read.format("kcoord").options(**source).load()
    assert frame.count() == 10
    with spark_kcoord.batch(spark, source) as batch:
        assert batch.rows.count() == 10
        shown += [repr(batch), repr(batch.rows), batch.ranges]
    with pytest.raises(PySparkException) as failed:
        spark.read.format("kcoord").options(**source, **LOGIN).load().count()
    frame.explain(extended=True)
    offsets = "\n".join(path.read_text() for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    told = capfd.readouterr()
    everything = "\n".join(
        [
            *map(str, shown),
            str(failed.value),
            repr(parse_options(source | LOGIN, "stream")),
            caplog.text,
            told.out,
            told.err,
            offsets,
        ]
    )
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)  # else what came last is not noted yet
    noted = event_log(spark)
    assert "SparkListenerSQLExecutionStart" in noted
    assert name in noted or "kcoord" in noted
    pages = dict(ui(spark))
    assert "kcoord" in pages["sql"]
    processes = {str(path): path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is_there(path)}
    places: Mapping[str, str | bytes] = {"told": everything, "event log": noted, **pages, **processes}
    assert {place: found for place, text in places.items() if (found := found_in(text))} == {}
    assert found_in((tmp_path / "node" / "node.log").read_text()) == []


def _is_there(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


def taken_with(name: str) -> dict[str, str]:
    """Return options of a read with the canary of a secret among them, and what it needs beside it."""
    if name in LOGIN:
        return LOGIN
    for given in with_client_secret(name) if name in OF_CLIENTS else [{name: canary(name)}]:
        try:
            parse_options(NOWHERE | dict(given), "stream")
        except OptionError:
            continue
        return dict(given)
    login = {key: text for key, text in LOGIN.items() if key != "kafka.sasl.jaas.config"}
    return {**login, "kafka.sasl.username": "u", name: canary(name)}


@pytest.mark.parametrize("name", [*OF_READS, *OF_CLIENTS])
def test_no_plan_shows_a_secret(spark: "SparkSession", name: str, capfd: pytest.CaptureFixture[str]) -> None:
    source = NOWHERE | taken_with(name)
    frames = [reader.format("kcoord").options(**source).load() for reader in (spark.read, spark.readStream)]
    for frame in frames:
        # The physical plan of a batch asks Kafka, which is not there.
        plans = frame._jdf.queryExecution()
        shown = plans.logical().toString() + plans.analyzed().toString() + repr(frame)
        assert "kcoord" in shown
        assert found_in(shown) == []
    frames[1].explain(extended=True)
    explained = capfd.readouterr().out
    assert "Physical Plan" in explained
    assert found_in(explained) == []
