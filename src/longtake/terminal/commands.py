"""Groups of commands, loaded when they are called, with help and refusals in plain words; options that many share."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from longtake.validation import field_message

F = TypeVar("F", bound=Callable[..., Any])
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


class Commands(typer.Typer):
    """A group of commands. Called without one, it prints its help."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"cls": PlainGroup, "no_args_is_help": True, **how})

    def command(self, name: str | None = None, **how: Any) -> Callable[[F], F]:
        """Declare a command."""
        return super().command(name, **{"cls": PlainCommand, **how})


class _PlainFlags:
    """Nothing follows a flag, so none shows a type."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for one in parameters:
            if isinstance(one, TyperOption) and one.is_flag:
                one.metavar = ""
        return parameters


class PlainCommand(_PlainFlags, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; a value that does not fit is refused in our words."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            from pydantic import ValidationError

            if isinstance(error.__cause__, ValidationError):
                first = error.__cause__.errors(include_url=False)[0]
                error.message = f"{field_message(first).removesuffix('.')}."
            raise


class PlainGroup(_PlainFlags, TyperGroup):
    """A group of commands."""


class LazyCommand(PlainCommand):
    """A command, or a group of them, whose module is imported when it is called; its help is known before."""

    def __init__(self, name: str, place: str, help: str) -> None:  # noqa: A002 - typer's word
        super().__init__(name, help=help)
        #: A function or a group, as "module:name".
        self.place = place

    def load(self) -> Any:
        """Return the command itself."""
        module, name = self.place.split(":")
        found = getattr(import_module(module), name)
        if isinstance(found, Commands):
            loaded: Any = typer.main.get_group(found)
            loaded.name, loaded.help = self.name, self.help
            return loaded
        alone = Commands()
        alone.command(self.name)(found)
        return typer.main.get_group(alone).commands[str(self.name)]

    def make_context(self, *arguments: Any, **how: Any) -> Any:
        """Return the context of the command itself, which is then the one that runs."""
        return self.load().make_context(*arguments, **how)


def confirm(question: str, *, yes: bool) -> None:
    """Continue only if the answer is yes. Without a terminal, --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("this deletes data: say --yes if you mean it.", param_hint="--yes")
    typer.confirm(question, abort=True)


def confirm_deletion(ids: Sequence[str], noun: str, consequence: str, *, yes: bool) -> None:
    """Ask once before all of them are deleted."""
    named = f"the {noun} {ids[0]}" if len(ids) == 1 else f"{len(ids):,} {noun}s"
    confirm(f"Delete {named}? {consequence}", yes=yes)


def delete_each(ids: Sequence[str], delete: Callable[[str], None], *, as_json: bool) -> None:
    """Delete one after the other until one is refused; those before it are reported and stay deleted."""
    from longtake.terminal.output import print_json, print_line

    deleted: list[str] = []
    try:
        for one in ids:
            delete(one)
            deleted.append(one)
            if not as_json:
                print_line(f"Deleted: {one}.")
    finally:
        if as_json:
            print_json({"deleted": deleted})
