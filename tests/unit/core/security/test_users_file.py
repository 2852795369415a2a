"""The text of the users file: it is read as it was written, and a mistake names its line and shows no secret."""

import pytest

from coordinator.core.security.users import Users, Verifier, hash_of_token
from coordinator.core.security.users_file import UsersError, parse_users, users_text

CANARY = "c4n4ry"
SALT, KEY, LONG = b"salt" * 4, b"k" * 32, b"l" * 64
B64_SALT, B64_KEY = "c2FsdHNhbHRzYWx0c2FsdA==", "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
USERS = Users(
    {
        ("SCRAM-SHA-256", "alice"): Verifier(4096, SALT, KEY, KEY),
        ("SCRAM-SHA-512", "alice"): Verifier(8192, SALT, LONG, LONG),
        ("SCRAM-SHA-256", 'a "name" with # and \''): Verifier(4096, SALT, KEY, KEY),
        ("SCRAM-SHA-256", "CN=Bob,O=Ex ample"): Verifier(4096, SALT, KEY, KEY),
    },
    {hash_of_token("t1"): "ci", hash_of_token("t2"): "ci", hash_of_token("t3"): "alice"},
    b"secret",
)
GOOD = f"alice SCRAM-SHA-256$4096:{B64_SALT}${B64_KEY}:{B64_KEY}"


def test_users_are_read_as_they_were_written() -> None:
    assert parse_users(users_text(USERS)) == USERS
    assert USERS.names == ["CN=Bob,O=Ex ample", 'a "name" with # and \'', "alice", "ci"]
    assert USERS.proofs_of("alice") == ("SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    assert USERS.proofs_of("ci") == ("OAUTHBEARER",)
    assert (USERS.owner_of("t2"), USERS.owner_of("t4")) == ("ci", None)


def test_comments_and_empty_lines_say_nothing_and_a_file_without_a_secret_has_one_of_its_own() -> None:
    found = parse_users(f"# users\n\n  {GOOD}   # alice\n")
    assert found.names == ["alice"]
    assert found.secret
    assert found.secret != parse_users(GOOD).secret
    assert parse_users("").names == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("alice", "has another form: NAME KIND"),
        (f"alice {CANARY}", "has another form"),
        (f"alice SCRAM-SHA-256$4096:{B64_SALT}${B64_KEY}:{B64_KEY} more", "has another form"),
        (f"alice MD5${CANARY}", "the proof is none of SCRAM-SHA-256, SCRAM-SHA-512, TOKEN-SHA-256"),
        (f"alice SCRAM-SHA-256${CANARY}", "a verifier has another form"),
        (f"alice SCRAM-SHA-256$4095:{B64_SALT}${B64_KEY}:{B64_KEY}", "4095 iterations, not from 4096"),
        (f"alice SCRAM-SHA-256$9999999:{B64_SALT}${B64_KEY}:{B64_KEY}", "9999999 iterations"),
        (f"alice SCRAM-SHA-512$4096:{B64_SALT}${B64_KEY}:{B64_KEY}", "its keys are not those of SCRAM-SHA-512"),
        (f"alice SCRAM-SHA-256$4096:c2FsdA==${B64_KEY}:{B64_KEY}", "its salt has 4 bytes"),
        (f"alice SCRAM-SHA-256$4096:c2FsdA=${B64_KEY}:{B64_KEY}", "not Base64"),
        (f"alice TOKEN-SHA-256${CANARY}", "64 hexadecimal digits"),
        (f"'alice SCRAM-SHA-256$4096:{CANARY}", "a quote is not closed"),
        (f"ANONYMOUS SCRAM-SHA-256$4096:{B64_SALT}${B64_KEY}:{B64_KEY}", "stands for others"),
        (f"'*' SCRAM-SHA-256$4096:{B64_SALT}${B64_KEY}:{B64_KEY}", "stands for others"),
        (f"' ' SCRAM-SHA-256$4096:{B64_SALT}${B64_KEY}:{B64_KEY}", "begins or ends with a space"),
        (f"alice SECRET${B64_KEY}", "begins with *"),
        (GOOD, "the second line of the same"),
        ("* SECRET$YQ==\n* SECRET$YQ==", "the second line of the same"),
    ],
)
def test_a_mistake_names_its_line_and_shows_nothing_of_a_secret(line: str, why: str) -> None:
    with pytest.raises(UsersError) as raised:
        parse_users(f"{GOOD}\n{line}\n")
    assert why in str(raised.value)
    assert str(raised.value).startswith(("line 2: ", "line 3: "))
    assert CANARY not in str(raised.value)
    assert B64_KEY not in str(raised.value)
