"""A group of verbs each of which is loaded when it is asked for: most of what `kcoord` starts is one verb of fifty.

Names are known without loading, so a verb that is not there is answered with the nearest; help loads all.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from typer.core import TyperGroup
from typer.main import get_group

if TYPE_CHECKING:
    from typer._click.core import Command

Place: TypeAlias = str
"""MODULE:NAME of a function that is a verb, or of a `typer.Typer` with verbs of its own."""


class _Verbs(MutableMapping[str, "Command"]):
    """Commands by name, in the order in which help shows them; each is made when it is first looked up."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = dict(places)
        self._made: dict[str, Command] = {}

    def __getitem__(self, name: str) -> "Command":
        if name not in self._made:
            self._made[name] = _make(name, self._places[name])
        return self._made[name]

    def __setitem__(self, name: str, command: "Command") -> None:
        self._places.setdefault(name, "")
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def group_of(places: Mapping[str, Place]) -> type[TyperGroup]:
    """Return the class of a `typer.Typer` that has the verbs at these places, by name."""

    class LoadedWhenAsked(TyperGroup):
        def __init__(self, *, commands: Any = None, **settings: Any) -> None:
            assert not commands, "a verb is in the table, not registered beside it"
            super().__init__(**settings)
            self.commands = _Verbs(places)

        def list_commands(self, ctx: Any) -> list[str]:
            del ctx
            return list(self.commands)

    return LoadedWhenAsked


def _make(name: str, place: Place) -> "Command":
    module, _, attribute = place.partition(":")
    verb = getattr(import_module(module), attribute)
    holder = typer.Typer()
    if isinstance(verb, typer.Typer):
        holder.add_typer(verb, name=name)
    else:
        holder.command(name)(verb)
    return get_group(holder).commands[name]
