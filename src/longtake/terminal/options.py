"""Options that many commands share, and the questions that belong to them."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


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
