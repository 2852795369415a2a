"""`spark_kcoord.attach` in a session of Spark Connect, which has no JVM of its own: the client listens."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import spark_kcoord
from spark_kcoord.source.process.jvm_errors import JVM_ERRORS

PROGRAM = """
import sys
sys.modules["py4j"] = None
from spark_kcoord.source.process.jvm_errors import JVM_ERRORS
assert JVM_ERRORS == ()
try:
    raise ValueError("another one")
except JVM_ERRORS:
    raise SystemExit("everything is caught")
except ValueError:
    pass
"""


class ConnectSession:
    """A session that keeps its listeners, and has nothing of a JVM."""

    def __init__(self):
        self.listeners = []
        self.streams = SimpleNamespace(addListener=self.listeners.append, removeListener=self.listeners.remove)


@pytest.fixture
def session():
    return ConnectSession()


def test_the_client_listens_and_stops_listening(session):
    attachment = spark_kcoord.attach(session)
    assert session.listeners == [attachment]
    assert spark_kcoord.attach(session) is attachment
    attachment.close()
    assert session.listeners == []


def test_a_query_is_followed_without_asking_a_jvm(session, caplog):
    attachment = spark_kcoord.attach(session)
    attachment.onQueryStarted(SimpleNamespace(id="query", runId="run", name="events"))
    attachment.close()
    assert not caplog.records


def test_without_py4j_there_is_no_error_of_a_jvm():
    assert len(JVM_ERRORS) == 1
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
