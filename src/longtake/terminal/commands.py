"""Groups of commands: help without types beside flags, and refused values in plain words."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from longtake.validation import field_message

F = TypeVar("F", bound=Callable[..., Any])


class Commands(typer.Typer):
    """A group of commands. Called without one, it prints its help."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"cls": PlainGroup, "no_args_is_help": True, **how})

    def command(self, name: str | None = None, **how: Any) -> Callable[[F], F]:
        """Declare a command."""
        return super().command(name, **{"cls": PlainCommand, **how})


class PlainCommand(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters; nothing follows a flag, so none shows a type."""
        return _without_types(super().get_params(ctx))

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


class PlainGroup(TyperGroup):
    """A group of commands."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters; nothing follows a flag, so none shows a type."""
        return _without_types(super().get_params(ctx))


def _without_types(parameters: Sequence[Any]) -> Sequence[Any]:
    for one in parameters:
        if isinstance(one, TyperOption) and one.is_flag:
            one.metavar = ""
    return parameters
