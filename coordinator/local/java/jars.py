"""Fetches the jars of a Java service from Maven Central into a per-user cache, once.

Uses the Ivy jar that PySpark ships, so nothing has to be installed for it; Ivy checks the checksums. A set of
jars appears in the cache whole or not at all (it is renamed into place), and one process at a time fetches.
The proxy settings of the environment are passed on to Java. Set `KCOORD_CACHE` to move the cache,
`KCOORD_IVY_SETTINGS` to an Ivy settings file where Maven Central is reached through a mirror.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from coordinator.local.errors import LocalServiceError
from coordinator.local.java.runtime import Java, find_java

_ATTEMPTS = 3
_ATTEMPT_TIMEOUT_S = 600.0
_LOCK_TIMEOUT_S = 1800.0
_LOCK_POLL_S = 0.2
_CONNECT_TIMEOUT_MS = 15_000
_READ_TIMEOUT_MS = 60_000
_COMPLETE = ".complete"
_FOUND = re.compile(r"^\s*found (?P<module>\S+) in ")
_FETCHED = re.compile(r"\[SUCCESSFUL ] (?P<module>[^!]+)!")
_TROUBLE = re.compile(r"not found|unresolved|failed|error|exception|unable|problem", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Module:
    """One artifact of Maven Central; `classifier` names one beside the main one, such as that with its tests.

    With `sha256` the jar is refused unless it has this checksum, wherever it came from.
    """

    organisation: str
    name: str
    version: str
    classifier: str = field(default="", repr=False)  # the names of directories come from the repr
    sha256: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class JarSet:
    """The jars of one service: modules, fetched with or without their dependencies, and how many jars that makes."""

    name: str
    modules: tuple[Module, ...]
    jar_count: int
    has_dependencies: bool = field(default=True, repr=False)  # the names of directories come from the repr

    @property
    def directory_name(self) -> str:
        """Return a name that differs whenever the content may differ."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:12]
        return f"{self.name}-{self.modules[0].version}-{digest}"


@dataclass(frozen=True, slots=True)
class JarProgress:
    """A step of the work: what is done now, how many of how many (modules or jars) are done, which one."""

    doing: str
    done: int
    total: int
    what: str


ReportProgress = Callable[[JarProgress], None]


def cache_directory() -> Path:
    """Return the directory for what can be made again: KCOORD_CACHE, or kcoord in the user's cache."""
    chosen = os.environ.get("KCOORD_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kcoord"


def resolve_jars(jar_set: JarSet, report: ReportProgress | None = None) -> tuple[Path, ...]:
    """Return the jars of the set, sorted, after fetching them if the cache does not have them all.

    Takes milliseconds when they are there, about half a minute when not. `report` is called in this thread.
    Raises `LocalServiceError` if they cannot be fetched; what was fetched is kept, and the next call goes on
    from there.
    """
    cache = cache_directory()
    home = cache / "jars" / jar_set.directory_name
    jars = _complete_jars(home)
    if jars is not None:
        return jars
    tell = report or (lambda _progress: None)
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "jars.lock", jar_set, tell) as lock:
            jars = _complete_jars(home)
            if jars is None:
                _fetch(jar_set, home, cache / "ivy", lock, tell)
                jars = _complete_jars(home)
    except OSError as error:
        raise LocalServiceError(f"The jars of {jar_set.name} cannot be kept in {cache}: {error}.") from error
    if jars is None:
        raise LocalServiceError(f"The jars in {home} change while they are used: remove that directory and try again.")
    return jars


def _complete_jars(home: Path) -> tuple[Path, ...] | None:
    """Return the jars that the marker lists; None without a marker or if a file is missing or damaged."""
    try:
        listed = [line.rsplit(" ", 1) for line in (home / _COMPLETE).read_text().splitlines()]
        if any((home / name).stat().st_size != int(size) for name, size in listed):
            return None
    except (FileNotFoundError, NotADirectoryError):
        return None
    return tuple(home / name for name, _size in listed)


def _fetch(jar_set: JarSet, home: Path, ivy_home: Path, lock: IO[bytes], tell: ReportProgress) -> None:
    java = find_java()
    ivy_jar = _find_ivy()
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.parent) as scratch_name:
        scratch = Path(scratch_name)
        command = _ivy_command(jar_set, java, ivy_jar, ivy_home, scratch)
        for attempt in range(1, _ATTEMPTS + 1):
            exit_code, output = _run_ivy(jar_set, command, lock, tell)
            if exit_code == 0:
                break
            tell(JarProgress(f"attempt {attempt} of {_ATTEMPTS} failed", 0, jar_set.jar_count, ""))
        else:
            raise LocalServiceError(_explain(jar_set, output))
        jars = sorted((scratch / "jars").glob("*.jar"))
        if len(jars) != jar_set.jar_count:
            raise LocalServiceError(
                f"Maven Central gave {len(jars)} jars for {jar_set.name} instead of {jar_set.jar_count}: "
                f"remove {ivy_home} and try again."
            )
        _check_digests(jar_set, scratch / "jars", ivy_home)
        marker = "".join(f"{jar.name} {jar.stat().st_size}\n" for jar in jars)
        (scratch / "jars" / _COMPLETE).write_text(marker)
        if home.exists():  # a damaged one
            shutil.rmtree(home)
        (scratch / "jars").replace(home)


def _check_digests(jar_set: JarSet, jars: Path, ivy_home: Path) -> None:
    """Raise `LocalServiceError` for a jar that does not have the checksum that its module says."""
    for module in jar_set.modules:
        if not module.sha256:
            continue
        jar = jars / f"{module.name}-{module.version}.jar"
        found = hashlib.sha256(jar.read_bytes()).hexdigest() if jar.exists() else "missing"
        if found != module.sha256:
            raise LocalServiceError(
                f"{jar.name} is not what {jar_set.name} needs: its SHA-256 is {found} instead of {module.sha256}. "
                f"Remove {ivy_home} and try again; if that does not help, look at what answers for Maven Central."
            )


def _find_ivy() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    for package in (pyspark.submodule_search_locations or []) if pyspark else []:
        for jar in sorted(Path(package, "jars").glob("ivy-*.jar")):
            return jar
    raise LocalServiceError("PySpark's Ivy jar is needed to fetch jars: install `kcoord[spark]`.")


def _ivy_command(jar_set: JarSet, java: Java, ivy_jar: Path, ivy_home: Path, scratch: Path) -> list[str]:
    """Write what Ivy reads into `scratch` and return the command; some jars are of the type `bundle`."""
    wanted = "\n".join(
        f'<dependency org="{it.organisation}" name="{it.name}" rev="{it.version}" conf="*->default" '
        f'transitive="{str(jar_set.has_dependencies).lower()}">{_artifact(it)}</dependency>'
        for it in jar_set.modules
    )
    (scratch / "ivy.xml").write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        f'<info organisation="kcoord" module="{jar_set.name}" revision="1"/>\n'
        f"<dependencies>\n{wanted}\n</dependencies></ivy-module>\n"
    )
    properties = {
        "ivy.default.ivy.user.dir": str(ivy_home),
        "sun.net.client.defaultConnectTimeout": str(_CONNECT_TIMEOUT_MS),
        "sun.net.client.defaultReadTimeout": str(_READ_TIMEOUT_MS),
        **proxy_properties(),
    }
    quoted = (f"-D{name}={value}".replace("\\", "\\\\").replace('"', '\\"') for name, value in properties.items())
    java_options = scratch / "java-options"  # a file, because a proxy's password must not show in the process list
    java_options.touch(mode=0o600)
    java_options.write_text("".join(f'"{option}"\n' for option in quoted))
    settings = os.environ.get("KCOORD_IVY_SETTINGS")
    retrieve = scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]"
    return [
        str(java.executable),
        f"@{java_options}",
        *["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        *["-jar", str(ivy_jar)],
        *(["-settings", settings] if settings else []),
        *["-cache", str(ivy_home / "cache"), "-ivy", str(scratch / "ivy.xml"), "-confs", "default"],
        *["-types", "jar", "bundle", "-retrieve", str(retrieve)],
    ]


def _artifact(module: Module) -> str:
    """Return what names an artifact that is not its module's main one; nothing for that."""
    if not module.classifier:
        return ""
    return f'<artifact name="{module.name}" type="jar" ext="jar" m:classifier="{module.classifier}"/>'


def _run_ivy(jar_set: JarSet, command: list[str], lock: IO[bytes], tell: ReportProgress) -> tuple[int, list[str]]:
    """Run Ivy, tell what it does, return its exit code and output.

    Ivy inherits the lock: should this process be killed, nobody fetches beside an Ivy that still runs.
    """
    output: list[str] = []
    found = fetched = 0
    tell(JarProgress("looking up", 0, jar_set.jar_count, jar_set.name))
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[lock.fileno()],
    ) as ivy:
        deadline = threading.Timer(_ATTEMPT_TIMEOUT_S, ivy.kill)
        deadline.daemon = True
        deadline.start()
        try:
            for line in ivy.stdout or ():
                output.append(line.rstrip())
                if match := _FOUND.search(line):
                    found += 1
                    tell(JarProgress("looking up", found, jar_set.jar_count, match["module"]))
                elif match := _FETCHED.search(line):
                    fetched += 1
                    tell(JarProgress("downloading", fetched, jar_set.jar_count, match["module"]))
        except BaseException:
            ivy.kill()
            raise
        finally:
            deadline.cancel()
    return ivy.returncode, output


def _explain(jar_set: JarSet, output: list[str]) -> str:
    trouble = list(dict.fromkeys(line.strip() for line in output if _TROUBLE.search(line)))
    shown = "\n".join(f"  {line}" for line in (trouble or output)[-12:])
    return (
        f"The jars of {jar_set.name} could not be fetched from Maven Central: check the network, set "
        "HTTPS_PROXY if there is a proxy, or KCOORD_IVY_SETTINGS to an Ivy settings file naming a mirror. "
        f"Ivy says:\n{shown}"
    )


def proxy_properties() -> dict[str, str]:
    """Return the environment's proxy settings as Java's system properties."""
    proxies = urllib.request.getproxies()
    properties: dict[str, str] = {}
    for scheme in ("http", "https"):
        address = proxies.get(scheme) or proxies.get("all")
        if not address:
            continue
        proxy = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
        if proxy.hostname is None:
            raise LocalServiceError(f"{scheme}_proxy is {address!r}, which names no host: use http://HOST:PORT.")
        properties[f"{scheme}.proxyHost"] = proxy.hostname
        properties[f"{scheme}.proxyPort"] = str(proxy.port or (443 if proxy.scheme == "https" else 80))
        if proxy.username:
            for name in (scheme, "http"):  # Ivy reads only http.proxyUser
                properties[f"{name}.proxyUser"] = urllib.parse.unquote(proxy.username)
                properties[f"{name}.proxyPassword"] = urllib.parse.unquote(proxy.password or "")
            properties["jdk.http.auth.tunneling.disabledSchemes"] = ""
    bypass = [host.strip().lstrip(".") for host in proxies.get("no", "").split(",") if host.strip()]
    if properties and bypass:
        properties["http.nonProxyHosts"] = "|".join(f"{host}|*.{host}" if host != "*" else "*" for host in bypass)
    return properties


@contextmanager
def _locked(path: Path, jar_set: JarSet, tell: ReportProgress) -> Iterator[IO[bytes]]:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    with path.open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LocalServiceError(f"Another process has held {path} for too long: end it.") from None
                tell(JarProgress("waiting for another process", 0, jar_set.jar_count, jar_set.name))
                time.sleep(_LOCK_POLL_S)
        yield lock
