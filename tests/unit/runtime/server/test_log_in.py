"""Log-ins on the members' port: good ones act for their principal, each bad one ends soon, with a line in the log."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from scramp import ScramClient

from coordinator.client.connection import Connection, NodeError
from coordinator.client.security import ClientSecurity, Secret
from coordinator.config import ConfigError, ServerSettings, TlsSettings, load_settings
from coordinator.core.security.admission import SPARED_MS
from coordinator.core.security.principal import ANONYMOUS, Principal, parse_subject_rules
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.log_in import LogInAnswered, LogInSession, token_message
from coordinator.protocol.messages import ErrorResponse, ListGroups, ListGroupsResponse
from coordinator.protocol.messages.log_in import LogIn, LogInResponse
from coordinator.protocol.session import Role, Session
from coordinator.runtime.security.log_ins import LogIns
from coordinator.runtime.security.tls import tls_of_members
from coordinator.runtime.security.users_store import add_password, add_token, remove_user
from coordinator.runtime.server.connection import Connection as Served
from coordinator.runtime.server.gate import Gate
from coordinator.runtime.server.port import Server
from coordinator.runtime.server.turns import TURN_NS
from tests.helpers.certificates import Authority
from tests.helpers.collector import left_to_python
from tests.helpers.event_loops import run
from tests.helpers.loopback import RememberedLog, until
from tests.unit.runtime.server.test_server import HandClock, Listener

PATIENCE_S = 60.0
PASSWORD = "c4n4ry-p4ssw0rd"
ANSWER = ListGroupsResponse()


class Scene:
    """A server where clients log in, in whose loop the test plays; clients are blocking, on threads."""

    def __init__(
        self, users: Path, tls: TlsSettings | None, server: ServerSettings | None = None, **settings: object
    ) -> None:
        given = {"mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER", "users_file": str(users)} | settings
        flags = {f"authentication.{name}": value for name, value in given.items()}
        self.log = RememberedLog()
        self.log_ins = LogIns(load_settings(None, flags).authentication, self.log.logger)
        self.listener = Listener()
        self.clock = HandClock()
        self.server = Server(
            server or ServerSettings(max_connections=100),
            self.listener,
            self.clock,
            self.log.logger,
            tls=None if tls is None else tls_of_members(tls, self.log.logger),
            subject_rules=parse_subject_rules("RULE:^CN=([^,]+),.*$/$1/,DEFAULT"),
            log_ins=self.log_ins,
        )
        self.address = ("", 0)
        self.listener.on_request = lambda connection, correlation, _request: self.server.send_response(
            connection, correlation, ANSWER
        )

    async def ask(self, security: ClientSecurity) -> object:
        """Ask as a client does; return the answer, or the text of the error."""

        def ask() -> object:
            try:
                with Connection(("127.0.0.1", self.address[1]), PATIENCE_S, security) as connection:
                    return connection.ask(ListGroups(), PATIENCE_S)
            except NodeError as error:
                return str(error)

        return await asyncio.to_thread(ask)

    @property
    def refused(self) -> list[str]:
        """Return why log-ins were refused, as the node's log has it."""
        return [line["why"] for line in self.log.of("log-in-refused")]


@contextlib.asynccontextmanager
async def scene(
    users: Path, tls: TlsSettings | None, server: ServerSettings | None, **settings: object
) -> AsyncIterator[Scene]:
    made = Scene(users, tls, server, **settings)
    made.address = await made.server.bind("127.0.0.1", 0)
    await made.server.accept()
    try:
        yield made
    finally:
        await made.server.close("the test is over")


def play(
    act: Callable[[Scene], Awaitable[None]],
    users: Path,
    tls: TlsSettings | None = None,
    server: ServerSettings | None = None,
    **settings: object,
) -> Scene:
    async def whole() -> Scene:
        async with scene(users, tls, server, **settings) as made:
            await asyncio.wait_for(act(made), 60)
        return made

    return run(whole())


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    add_password(path, "alice", PASSWORD, ("SCRAM-SHA-256", "SCRAM-SHA-512"), 4096)
    return path


def by_password(name: str = "alice", password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512") -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", mechanism=mechanism, username=name, password=Secret(password))


def by_token(token: str) -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", mechanism="OAUTHBEARER", token=Secret(token))


def test_a_client_that_logs_in_acts_for_its_user(users: Path) -> None:
    token = add_token(users, "ci")

    async def act(on: Scene) -> None:
        for security in (by_password(), by_password(mechanism="SCRAM-SHA-256"), by_token(token)):
            assert await on.ask(security) == ANSWER
        assert list(on.listener.principals.values()) == [Principal("alice"), Principal("alice"), Principal("ci")]
        assert on.log.lines == []

    play(act, users)


def test_each_log_in_that_fails_is_a_line_here_and_a_reason_there_that_tells_no_secret(users: Path) -> None:
    async def act(on: Scene) -> None:
        began_s = time.monotonic()
        told = [
            await on.ask(by_password(password="wrong")),
            await on.ask(by_password(name="mallory")),
            await on.ask(by_token(PASSWORD)),
            await on.ask(ClientSecurity()),
        ]
        took_s = time.monotonic() - began_s
        assert told[0] == told[1] == "refused the log-in: user name and password do not fit"
        assert told[2] == "refused the log-in: the token is refused: it is nobody's"
        answer = told[3]
        assert isinstance(answer, ErrorResponse)
        assert answer.error is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert on.refused == [
            "the password of user 'alice' is another one",
            "'mallory' is no user with SCRAM-SHA-512 in authentication.users_file",
            "its token is refused: it is nobody's",
            "it asked for something before it had logged in",
        ]
        assert {line["host"] for line in on.log.lines} == {"127.0.0.1"}
        assert on.listener.told == []
        assert took_s >= 4 * 0.1
        assert PASSWORD not in f"{told} {on.log.lines}"
        await until(lambda: on.server.connections == 0)

    play(act, users)


def test_a_refusal_is_said_after_its_delay_also_where_a_hello_has_less_time(users: Path) -> None:
    async def act(on: Scene) -> None:
        asking = asyncio.ensure_future(on.ask(by_password(password="wrong")))
        await until(lambda: on.refused)
        on.clock.now_ms += 10_000
        on.server.check_deadlines(on.clock.now_ms)
        assert await asking == "refused the log-in: user name and password do not fit"
        assert on.log.of("stranger") == []
        await until(lambda: on.server.connections == 0)

    play(act, users, refusal_delay_ms="500")


def test_connections_of_log_ins_that_are_gone_are_freed_without_the_collector(users: Path) -> None:
    async def act(on: Scene) -> None:
        with left_to_python(Served, Gate) as alive:
            for security in (by_password(), by_password(password="wrong"), ClientSecurity()):
                await on.ask(security)
            await until(lambda: on.server.connections == 0)
            await until(lambda: not alive())

    play(act, users)


def test_a_user_that_is_added_or_taken_off_counts_from_the_next_connection_on(users: Path) -> None:
    async def act(on: Scene) -> None:
        assert on.log_ins.users is not None
        add_password(users, "bob", PASSWORD, ("SCRAM-SHA-512",), 4096)
        remove_user(users, "alice")
        assert on.log_ins.users.look()
        assert await on.ask(by_password("bob")) == ANSWER
        assert await on.ask(by_password("alice")) == "refused the log-in: user name and password do not fit"
        users.write_text("bob nonsense\n")
        assert not on.log_ins.users.look(in_any_case=True)
        assert await on.ask(by_password("bob")) == ANSWER
        (refused,) = on.log.of("file-refused")
        assert f"{users}: line 1: " in refused["why"]

    play(act, users)


def test_whoever_does_not_log_in_in_time_is_cut_off(users: Path) -> None:
    async def act(on: Scene) -> None:
        silent = await asyncio.open_connection(*on.address)
        greeted = await asyncio.open_connection(*on.address)
        greeted[1].write(Session(Role.MEMBER).send_hello())
        await until(lambda: on.server.connections == 2)
        await greeted[0].readexactly(HELLO_BYTES)
        await until(lambda: any(each._gate is not None for each in on.server._live))
        on.clock.now_ms += 10_000
        on.server.check_deadlines(on.clock.now_ms)
        await until(lambda: on.server.connections == 0)
        assert sorted(line["why"] for line in on.log.of("stranger")) == [
            "it did not log in within 10000 ms",
            "no hello came within 10000 ms",
        ]
        for _, writer in (silent, greeted):
            writer.close()

    play(act, users)


HELLO_BYTES = 12


class Stranger:
    """A raw socket that has said hello, and logs in a word at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._session = LogInSession(Role.MEMBER)
        writer.write(self._session.greet())

    async def say(self, mechanism: str, data: bytes) -> LogInResponse | ErrorResponse:
        if not self._session.has_heard:
            list(self._session.receive(await asyncio.wait_for(self._reader.readexactly(HELLO_BYTES), PATIENCE_S)))
        self.writer.write(self._session.ask(LogIn(mechanism, data)))
        while True:
            for one in self._session.receive(await asyncio.wait_for(self._reader.read(4096), PATIENCE_S)):
                if isinstance(one, LogInAnswered):
                    return one.response

    async def is_cut_off(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(self._reader.read(), PATIENCE_S) == b""
        return True


async def stranger(on: Scene) -> Stranger:
    return Stranger(*await asyncio.open_connection(*on.address))


def test_whoever_has_not_logged_in_is_half_open_and_gives_way(users: Path) -> None:
    async def act(on: Scene) -> None:
        first, second = await stranger(on), await stranger(on)
        for each in (first, second):
            scram = ScramClient(["SCRAM-SHA-256"], "alice", PASSWORD)
            answer = await each.say("SCRAM-SHA-256", scram.get_client_first().encode())
            assert isinstance(answer, LogInResponse)
        assert on.server.admission.half_open_count == 2, "both have said hello, and begun to log in"
        scram.set_server_first(answer.data.decode())
        done = await second.say("SCRAM-SHA-256", scram.get_client_final().encode())
        assert isinstance(done, LogInResponse)
        assert done.is_done
        assert on.server.admission.half_open_count == 2, "the hello after the log-in has not come"
        second.writer.write(Session(Role.MEMBER).send_hello())
        await until(lambda: on.server.admission.half_open_count == 1)
        on.clock.now_ms += SPARED_MS
        assert await on.ask(by_password()) == ANSWER
        assert on.server.admission.half_open_count == 1
        third = await stranger(on)
        await until(lambda: on.server.admission.half_open_count == 2)
        assert await on.ask(by_password()) == ANSWER
        assert await first.is_cut_off()
        for each in (first, second, third):
            each.writer.close()

    server = ServerSettings(max_connections=100, half_open_max=2)
    assert len(play(act, users, server=server).log.of("gave-way")) == 1


def test_a_name_that_would_hold_up_the_loop_is_a_failure_of_its_address_and_a_line(users: Path) -> None:
    async def act(on: Scene) -> None:
        each = await stranger(on)
        name = "\ufdfa" * 500
        answer = await each.say("SCRAM-SHA-512", f"n,,n={name},r=x".encode())
        assert isinstance(answer, LogInResponse)
        assert answer.error is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert on.refused == ["it names a user with more than 256 characters in its name"]
        assert on.server.admission.failing_addresses == 1
        assert await each.is_cut_off()
        each.writer.close()

    play(act, users)


def test_an_address_whose_log_ins_are_refused_again_and_again_has_to_wait(users: Path) -> None:
    async def act(on: Scene) -> None:
        for number in range(3):
            assert "do not fit" in str(await on.ask(by_password(password=f"guess {number}")))
        await until(lambda: on.server.connections == 0)
        shut_out = await stranger(on)
        assert await shut_out.is_cut_off()
        shut_out.writer.close()
        assert on.server.reached["server.failures_burst"] == 1
        on.clock.now_ms += 1_000
        assert await on.ask(by_password()) == ANSWER

    play(act, users, server=ServerSettings(max_connections=100, failures_burst=3, failures_per_s=1))


def test_a_log_in_waits_for_its_turn_like_whatever_else_a_stranger_says(users: Path) -> None:
    async def act(on: Scene) -> None:
        turns = on.server.turns
        each = await stranger(on)
        await until(lambda: any(live._gate is not None for live in on.server._live))
        await until(lambda: not turns._is_due)
        next_turn, turns._next = turns._next, lambda: None  # type: ignore[method-assign]
        turns.spend(turns.now_ns() - 10 * TURN_NS)
        asking = asyncio.ensure_future(each.say("OAUTHBEARER", token_message("no token")))
        await until(lambda: len(turns) == 1)
        assert on.refused == []
        next_turn()
        answer = await asking
        assert answer.error is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await each.is_cut_off()
        each.writer.close()

    play(act, users)


def test_a_long_frame_of_a_stranger_is_refused_before_it_has_come(users: Path) -> None:
    async def act(on: Scene) -> None:
        reader, writer = await asyncio.open_connection(*on.address)
        writer.write(Session(Role.MEMBER).send_hello() + (16 * 1024 + 1).to_bytes(4))
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) != b""
        writer.close()
        await until(lambda: on.server.connections == 0)
        (line,) = on.log.of("stranger")
        assert "over the limit of 16384" in line["why"]

    play(act, users)


def test_a_connection_ends_with_the_token_that_it_logged_in_with(users: Path) -> None:
    async def act(on: Scene) -> None:
        connection = None

        def stay() -> Connection:
            held = Connection(("127.0.0.1", on.address[1]), PATIENCE_S, by_password())
            assert held.ask(ListGroups(), PATIENCE_S) == ANSWER
            return held

        connection = await asyncio.to_thread(stay)
        (live,) = on.server._live
        live.let_in(Principal("alice"), time.time() + 0.05)
        await until(lambda: on.server.connections == 0)
        assert on.listener.closed_whys() == ["the token that it logged in with has expired"]
        (ended,) = on.log.of("log-in-ended")
        assert "User:alice" in ended["why"]
        connection.__exit__()

    play(act, users)


def test_tls_and_log_ins_go_together_and_a_log_in_counts_before_a_certificate(users: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    node, bob = authority.pair(), authority.pair("bob", "bob.example", common_name="bob")
    tls = TlsSettings(
        certificate=str(node.certificate),
        key=str(node.key),
        trusted_certificates=str(authority.trusted),
        client_auth="requested",
    )
    trusting = {"ca_location": str(authority.trusted)}
    shown = trusting | {"certificate_location": str(bob.certificate), "key_location": str(bob.key)}
    alice = {"mechanism": "SCRAM-SHA-256", "username": "alice", "password": Secret(PASSWORD)}

    async def act(on: Scene) -> None:
        assert await on.ask(ClientSecurity("SASL_SSL", **trusting, **alice)) == ANSWER  # type: ignore[arg-type]
        assert await on.ask(ClientSecurity("SASL_SSL", **shown, **alice)) == ANSWER  # type: ignore[arg-type]
        assert await on.ask(ClientSecurity("SSL", **shown)) == ANSWER
        assert isinstance(await on.ask(ClientSecurity("SSL", **trusting)), ErrorResponse)
        assert "one end speaks TLS" in str(await on.ask(by_password()))
        assert list(on.listener.principals.values()) == [Principal("alice"), Principal("alice"), Principal("bob")]

    play(act, users, tls)


def test_whoever_does_not_log_in_may_be_let_in_as_nobody(users: Path) -> None:
    async def act(on: Scene) -> None:
        assert await on.ask(ClientSecurity()) == ANSWER
        assert await on.ask(by_password()) == ANSWER
        assert list(on.listener.principals.values()) == [ANONYMOUS, Principal("alice")]
        assert "do not fit" in str(await on.ask(by_password(password="wrong")))

    play(act, users, allow_anonymous="true")


def test_a_long_frame_of_somebody_who_need_not_log_in_counts_among_those_that_are_begun(users: Path) -> None:
    async def act(on: Scene) -> None:
        _, writer = await asyncio.open_connection(*on.address)
        writer.write(Session(Role.MEMBER).send_hello() + (1024 * 1024).to_bytes(4) + b"\0" * 500_000)
        await until(lambda: on.server.begun_bytes > 499_000)
        writer.close()

    play(act, users, allow_anonymous="true")


def test_a_file_of_users_that_cannot_be_used_at_the_start_is_an_error_that_names_the_line(users: Path) -> None:
    users.write_text("# users\nalice nonsense\n")
    with pytest.raises(ConfigError, match=f"{users}: line 2: a user has another form"):
        Scene(users, None)
    users.write_bytes(b"alice \xff\n")
    with pytest.raises(ConfigError, match=r"is not UTF-8 at byte 6"):
        Scene(users, None)
    users.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        Scene(users, None)


def test_a_node_that_logs_nobody_in_is_said_to(users: Path) -> None:
    async def act(on: Scene) -> None:
        on.server.log_ins = None
        assert "logs nobody in" in str(await on.ask(by_password()))
        (line,) = on.log.of("unknown-request")
        assert "it wants to log in, and nobody does here" in line["why"]

    play(act, users)
