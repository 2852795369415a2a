"""The log-ins of a node: which ways in there are now, of the users file and the keys of tokens as they were read last.

Both are read when the node starts and anew when they have changed. A mistake names the line; at the start it is an
error, later what was read before counts on. It also warns at the start of what others on the network could hear. A
node where nobody logs in loads nothing of a log-in.
"""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from coordinator.config import AuthenticationSettings, Settings
from coordinator.core.security.users import Users
from coordinator.core.security.users_file import MOST_BYTES, UsersError, parse_users
from coordinator.runtime.security.reread import FileError, Reread, read_file

if TYPE_CHECKING:
    from coordinator.core.security.log_in import LogInMachine
    from coordinator.runtime.security.bearer_tokens import Keys

_NONCE_BYTES = 24


def read_users(path: Path, secret: bytes = b"") -> Users:
    """Return the users of a file, with a secret where it has none; raises FileError, which names the line."""
    data = read_file(path, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise FileError(f"{path}: has more than {MOST_BYTES} bytes")
    try:
        return parse_users(data.decode("utf-8-sig"), secret)
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: is not UTF-8 at byte {error.start}") from None
    except UsersError as error:
        raise FileError(f"{path}: {error}") from error


class LogIns:
    """The ways in that count for the connections that come now. Raises ConfigError for a file that cannot be used."""

    def __init__(self, settings: AuthenticationSettings, log: FilteringBoundLogger) -> None:
        from coordinator.runtime.security.bearer_tokens import keys_of

        self.settings = settings
        self.users: Reread[Users] | None = None
        if settings.users_file:
            path = Path(settings.users_file)
            self.users = Reread("users", [path], lambda: read_users(path), log)
        self.keys: Reread[Keys] | None = keys_of(settings, log)

    def begin(self) -> "LogInMachine":
        """Return the log-in of a new connection."""
        from coordinator.core.security.log_in import LogInMachine, Ways
        from coordinator.runtime.security.bearer_tokens import Tokens

        users = Users() if self.users is None else self.users.value
        tokens = Tokens(self.settings, None if self.keys is None else self.keys.value, users)
        ways = Ways(self.settings.mechanisms, users, tokens.check)
        return LogInMachine(ways, secrets.token_urlsafe(_NONCE_BYTES))


def log_ins_of(settings: Settings, log: FilteringBoundLogger) -> LogIns | None:
    """Return the log-ins of this node, None where nobody logs in; raises ConfigError."""
    if not settings.authentication.is_on:
        return None
    heard = [each for each in settings.authentication.mechanisms if each in settings.authentication.without_tls]
    if heard and not settings.tls.is_on:
        log.warning(
            "log-in-without-tls",
            why=f"clients log in by {', '.join(heard)} without TLS, as authentication.without_tls says: whoever "
            "listens can try passwords at leisure, or use a token",
        )
    return LogIns(settings.authentication, log)


def log_in_files(log_ins: LogIns | None) -> "tuple[Reread[Users] | Reread[Keys] | None, ...]":
    """Return the files to be looked at while the node runs."""
    return () if log_ins is None else (log_ins.users, log_ins.keys)
