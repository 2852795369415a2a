"""`kcoord completion SHELL`: the lines by which a shell completes the words of kcoord."""

import sys
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer._completion_shared import get_completion_script  # as `--show-completion` has it, for a shell that is named

PROGRAM: Final = "kcoord"
_VARIABLE: Final = "_KCOORD_COMPLETE"


class Shell(StrEnum):
    """The shells that are completed in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.")]) -> None:
    """Print what the shell is to read: `source <(kcoord completion bash)`, or put it where the shell looks for it."""
    script = get_completion_script(prog_name=PROGRAM, complete_var=_VARIABLE, shell=shell.value)
    sys.stdout.write(script.strip() + "\n")
