"""`kcoord completion`: what a real bash completes with it, and that each shell gets lines of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app

COMPLETE = """
{script}
COMP_WORDS=(kcoord group wa); COMP_CWORD=2; COMP_LINE="kcoord group wa"; COMP_POINT=15
_kcoord_completion
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p kcoord
"""


@pytest.mark.parametrize(("shell", "said"), [("bash", "complete "), ("zsh", "#compdef kcoord"), ("fish", "complete ")])
def test_each_shell_has_its_lines(shell: str, said: str) -> None:
    result = CliRunner().invoke(app, ["completion", shell])
    assert result.exit_code == 0
    assert said in result.stdout
    assert f"complete_{shell}" in result.stdout


def test_another_shell_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(app, ["completion", "ksh"])
    assert result.exit_code == 2


def test_bash_completes_verbs(tmp_path: Path) -> None:
    program = tmp_path / "kcoord"
    run = "import sys; sys.argv[0] = 'kcoord'; from coordinator.cli import main; main()"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{run}" "$@"\n')
    program.chmod(0o755)
    script = CliRunner().invoke(app, ["completion", "bash"]).stdout
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE.format(script=script.replace("$1", "kcoord"))],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=Path(__file__).parents[5],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split()[:2] == ["wait", "watch"], done.stdout + done.stderr
    assert "-F _kcoord_completion kcoord" in done.stdout
