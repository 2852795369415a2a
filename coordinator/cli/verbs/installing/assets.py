"""`kcoord assets …`: Grafana boards, alert rules, a systemd unit and Kubernetes manifests, as they come with kcoord."""

from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

import coordinator
from coordinator.cli.parts.asking import Output
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.tables import OutputFormat, write_rows

app = typer.Typer(help="Boards, alert rules, a unit file and manifests.", no_args_is_help=True)

_PACKAGE: Final = Path(coordinator.__file__).parent
_SUFFIXES: Final = frozenset({".json", ".yaml", ".service", ".md"})


def shipped() -> dict[str, Path]:
    """Return every file by its path as it is exported; raises FileNotFoundError where an install has none.

    A wheel has them in the package; in a clone they are where they are kept.
    """
    in_wheel, clone = _PACKAGE / "assets", _PACKAGE.parent
    folder = in_wheel if in_wheel.is_dir() else clone / "deploy"
    found = {
        path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.suffix in _SUFFIXES
    }
    if folder != in_wheel and (clone / "docs" / "ALERTS.md").is_file():
        found["prometheus/ALERTS.md"] = clone / "docs" / "ALERTS.md"
    if not found:
        raise FileNotFoundError(f"no assets in {in_wheel} or {folder}")
    return dict(sorted(found.items()))


@app.command("list")
def list_assets(output: Output = OutputFormat.TABLE) -> None:
    """List the files that there are."""
    write_rows(output, ("FILE", "BYTES"), [(name, path.stat().st_size) for name, path in _found().items()])


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write them; made if it is not there.")],
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there and differ.")] = False,
) -> None:
    """Write all of them below a directory; files that are there and differ are left alone, and the exit code is 4."""
    texts = {folder / name: path.read_bytes() for name, path in _found().items()}
    other = [path for path, text in texts.items() if _differs(path, text)]
    if other and not force:
        named = ", ".join(str(path) for path in other[:5])
        more = f" and {len(other) - 5} more" if len(other) > 5 else ""
        notes.error(f"{named}{more} are there and differ; nothing is written. --force writes over them", DocCode.FILE)
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        except OSError as error:
            _end_with(path, error, "written")
    notes.print(f"{len(texts)} files are in {folder}.")


def _differs(path: Path, text: bytes) -> bool:
    """Say whether a file is at a path that has another text; ends the program where something else than a file is."""
    try:
        path.lstat()
        if path.is_file():
            return path.read_bytes() != text
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        _end_with(path, error, "read")
    notes.error(f"{path} is no file, and nothing is written; name another directory", DocCode.FILE)
    raise typer.Exit(ExitCode.ERROR)


def _end_with(path: Path, error: OSError, what: str) -> NoReturn:
    notes.error(f"{error.filename or path} cannot be {what}: {error.strerror}", DocCode.FILE)
    raise typer.Exit(ExitCode.ERROR) from None


def _found() -> dict[str, Path]:
    try:
        return shipped()
    except FileNotFoundError as error:
        notes.error(f"this install is not whole: {error}; install kcoord anew", DocCode.FILE)
        raise typer.Exit(ExitCode.ERROR) from None
