"""Audits what is shipped: known vulnerabilities, bandit's findings, and the bill of materials of the lock file.

    make audit        or, of a copy of the advisories:        make audit ADVISORIES=DIR

Every package of `uv.lock` for this Python is asked for in OSV's database, by pip-audit. A machine that does not reach
it gives a clone of https://github.com/pypa/advisory-database (or any folder of OSV records) as ADVISORIES; one that is
older than ADVISORY_DAYS is refused, since it knows nothing of late. bandit reads the product; what is meant so stands
in `MEANT`, each with its reason, and an entry that nothing needs any more fails. The bill of materials is in
CycloneDX's form. What could not be looked up is a failure, never a zero. Ends with
`audit: OK packages=N vulnerabilities=0 bandit=0 sbom=PATH`.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from advisories import AdvisoryService
from tidy import Excuse, Finding, judge

ROOT: Final = Path(__file__).resolve().parents[1]
PRODUCT: Final = ("coordinator", "spark_kcoord", "jobs", "kcoord", "pyspark_kcoord.py", "hatch_build.py")
OSV: Final = "https://api.osv.dev/v1/query"
LISTED_IN: Final = "scripts/audit.py"
LONGEST_S: Final = 600

_ASSERTIONS: Final = "an assertion names a bug of ours; what comes from the world is checked without assertions"
_CHILDREN: Final = "a child process is started from a list of arguments, never through a shell"

MEANT: Final[tuple[Excuse, ...]] = (
    Excuse("B101", "coordinator", _ASSERTIONS),
    Excuse("B101", "spark_kcoord", _ASSERTIONS),
    Excuse("B404", "coordinator/local", "real services are its children"),
    Excuse("B603", "coordinator/local", _CHILDREN),
    Excuse("B404", "coordinator/cli/diagnosis/doctor_check.py", "each check of the doctor is a child that may hang", 1),
    Excuse("B603", "coordinator/cli/diagnosis/doctor_check.py", _CHILDREN, 1),
    Excuse("B404", "spark_kcoord/source/process", "the member of an application is a child of its first reader"),
    Excuse("B603", "spark_kcoord/source/process", _CHILDREN),
    Excuse("B104", "coordinator/service/lifecycle.py", "the word is refused there, nothing is bound to it", 1),
    Excuse("B107", "coordinator/cli/verbs/serving/console.py", "no file of a password, which is the default", 1),
    Excuse("B604", "coordinator/cli/verbs/installing/completion.py", "a shell's name, which runs nothing", 1),
    Excuse("B105", "spark_kcoord/consumer/settings.py", "a sentence about OAUTHBEARER, no password", 1),
    Excuse("B311", "coordinator/local/process/ports.py", "a port that others do not take at once, no secret", 1),
    Excuse("B311", "coordinator/runtime/kafka/port.py", "spreads attempts in time, no secret", 1),
    Excuse("B704", "coordinator/console/web/templates.py", "digits of a number with thin spaces between", 1),
)
"""Findings of bandit that are meant so, by its number of the rule, and why."""

ACCEPTED: Final[tuple[Excuse, ...]] = ()
"""Vulnerabilities that do not concern us, by their id and the package, and why."""


class NotLookedUpError(Exception):
    """An audit that could not be made; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Vulnerabilities:
    """The packages that were asked for, and what is known of them."""

    packages: int
    found: tuple[Finding, ...]


def read_pip_audit(report: str) -> Vulnerabilities:
    """Read pip-audit's JSON; raises NotLookedUpError where a package was passed over, which it counts as no finding."""
    packages = json.loads(report)["dependencies"]
    passed_over = [f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package]
    if passed_over or not packages:
        raise NotLookedUpError(
            f"{len(passed_over)} of {len(packages)} packages were not looked up: {'; '.join(passed_over[:3])}"
        )
    found = tuple(
        Finding(one["id"], f"{package['name']}:{package['version']}", _told(one))
        for package in packages
        for one in package["vulns"]
    )
    return Vulnerabilities(len(packages), found)


def _told(one: dict[str, Any]) -> str:
    mended = ", ".join(one["fix_versions"]) or "no version yet"
    return f"{one['id']} (mended in {mended}): {one['description'][:200]}"


def read_bandit(report: str) -> list[Finding]:
    """Read bandit's JSON; a file that it could not read is a finding too."""
    read = json.loads(report)
    unread = [Finding("unread", one["filename"], one["reason"]) for one in read["errors"]]
    return unread + [
        Finding(one["test_id"], f"{one['filename']}:{one['line_number']}", f"{one['test_id']} {one['issue_text']}")
        for one in read["results"]
    ]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of this environment from the project's folder."""
    tool = str(Path(sys.executable).with_name(command[0]))
    return subprocess.run(
        [tool, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST_S
    )


def export(*arguments: str) -> str:
    """Return the lock file in another form."""
    done = run("uv", "export", "--frozen", "--quiet", "--all-extras", *arguments)
    if done.returncode:
        raise SystemExit(f"audit: FAILED uv cannot export the lock file: {done.stderr.strip()}")
    return done.stdout


def look_up(folder: Path, url: str) -> Vulnerabilities:
    """Ask for every package of the lock file, those of development too; raises NotLookedUpError."""
    requirements = folder / "audited.txt"
    requirements.write_text(export("--all-groups", "--no-emit-project"))
    arguments = ("--requirement", str(requirements), "--disable-pip", "--require-hashes", "--format", "json")
    done = run("pip-audit", *arguments, "--progress-spinner", "off", "--vulnerability-service", "osv", "--osv-url", url)
    if not done.stdout.lstrip().startswith("{"):
        last = (done.stderr.strip() or f"pip-audit ended with {done.returncode}").splitlines()[-1]
        raise NotLookedUpError(
            f"advisories cannot be had of {url}: {last[-300:]}. Where it is not reached give a clone of "
            "https://github.com/pypa/advisory-database: make audit ADVISORIES=DIR"
        )
    return read_pip_audit(done.stdout)


@contextlib.contextmanager
def advisories(folder: Path | None, most_days: int, now: datetime) -> Iterator[str]:
    """Provide the address to ask: OSV's, or that of a service over a folder of records."""
    if folder is None:
        yield OSV
        return
    with AdvisoryService(folder) as service:
        days = (now - service.newest).days
        if days > most_days:
            raise NotLookedUpError(
                f"the newest advisory in {folder} is of {service.newest:%Y-%m-%d}, {days} days old, and at most "
                f"{most_days} are allowed: update it, or raise ADVISORY_DAYS and know what that means"
            )
        yield service.url


def main() -> int:
    """Audit, print what is wrong and one line of result; return the exit code."""
    parser = argparse.ArgumentParser(prog="audit", description=__doc__)
    parser.add_argument("--advisories", type=Path, help="a folder of OSV records, asked in the place of osv.dev")
    parser.add_argument("--most-days", type=int, default=30, help="how old the newest of them may be")
    asked = parser.parse_args()
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    bill = folder / "kcoord.cdx.json"
    bill.write_text(export("--no-default-groups", "--format", "cyclonedx1.5"))
    wrong = []
    said = judge(
        read_bandit(run("bandit", "--quiet", "--recursive", "--format", "json", *PRODUCT).stdout), MEANT, LISTED_IN
    )
    packages, vulnerabilities = "0", "unknown"
    try:
        with advisories(asked.advisories, asked.most_days, datetime.now(UTC)) as url:
            known = look_up(folder, url)
        wrong = judge(known.found, ACCEPTED, LISTED_IN)
        packages, vulnerabilities = str(known.packages), str(len(wrong))
    except NotLookedUpError as error:
        wrong = [str(error)]
    for line in (*said, *wrong):
        sys.stdout.write(f"{line}\n")
    result = "FAILED" if said or wrong else "OK"
    sys.stdout.write(
        f"audit: {result} packages={packages} vulnerabilities={vulnerabilities} bandit={len(said)} "
        f"sbom={bill.relative_to(ROOT)}\n"
    )
    return int(result != "OK")


if __name__ == "__main__":
    sys.exit(main())
