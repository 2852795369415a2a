"""The file of contexts: what it may say, whose it is, and that no error shows a value."""

from pathlib import Path

import pytest

from coordinator.client.configuration.contexts import Contexts, contexts_path, read_contexts
from coordinator.client.security import SecurityError

GOOD = """
context = "dev"
[contexts.dev]
coordinator = "127.0.0.1:9292"
[contexts.prod]
coordinator = "c1:9292,c2:9292"
kcoord.security.protocol = "SSL"
"kcoord.ssl.ca.location" = "/etc/ca.pem"
"""


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    file = path / "config.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_context_has_addresses_and_settings_by_their_names(tmp_path: Path) -> None:
    contexts = read_contexts(written(tmp_path, GOOD, 0o644))
    prod = contexts.named("prod")
    assert (contexts.current, prod.coordinator) == ("dev", "c1:9292,c2:9292")
    assert prod.settings == {"kcoord.security.protocol": "SSL", "kcoord.ssl.ca.location": "/etc/ca.pem"}


def test_no_file_is_no_contexts(tmp_path: Path) -> None:
    assert read_contexts(tmp_path / "config.toml") == Contexts(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[contexts.a]\n", "context 'a' has no 'coordinator'"),
        ('[contexts.a]\ncoordinator = "a:b"\n', "context 'a': 'coordinator'"),
        (
            '[contexts.a]\ncoordinator = "a:1"\nkcoord.sekurity.protocol = "SSL"',
            "nearest is 'kcoord.security.protocol'",
        ),
        ("[contexts.a]\ncoordinator = 9292\n", "'coordinator' is no text"),
        ('context = "b"\n[contexts.bb]\ncoordinator = "a:1"\n', "no context 'b'; the nearest is 'bb'"),
        ('contekst = "b"\n', "'contekst' is unknown"),
        ("contexts = 3\n", "each context a table"),
        ("contexts.a = 3\n", "is no table"),
        ("[", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SecurityError, match=why):
        read_contexts(written(tmp_path, text))


def test_a_secret_that_others_may_read_is_refused_and_not_shown(tmp_path: Path) -> None:
    text = '[contexts.a]\ncoordinator = "a:1"\nkcoord.ssl.key.password = "hunter2"\n'
    contexts = read_contexts(written(tmp_path, text))
    assert contexts.named("a").settings["kcoord.ssl.key.password"] == "hunter2"
    assert "hunter2" not in repr(contexts)
    with pytest.raises(SecurityError, match="may be read by others: `chmod 600") as refused:
        read_contexts(written(tmp_path, text, 0o640))
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("names", "instead"),
    [
        (["kcoord.sasl.password"], "or name a file with kcoord.sasl.password.file"),
        (
            ["kcoord.auth.token", "kcoord.ssl.key.password"],
            "or name files with kcoord.ssl.key.password.file, kcoord.auth.token.file",
        ),
    ],
)
def test_the_way_out_names_the_secrets_that_were_found(tmp_path: Path, names: list[str], instead: str) -> None:
    secrets = "".join(f'{name} = "hunter2"\n' for name in names)
    with pytest.raises(SecurityError) as refused:
        read_contexts(written(tmp_path, f'[contexts.a]\ncoordinator = "a:1"\n{secrets}', 0o644))
    assert str(refused.value).endswith(f", {instead}")


def test_the_file_is_below_the_users_configuration() -> None:
    assert contexts_path({"HOME": "/h"}) == Path("/h/.config/kcoord/config.toml")
    assert contexts_path({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/kcoord/config.toml")
    assert contexts_path({}) is None
