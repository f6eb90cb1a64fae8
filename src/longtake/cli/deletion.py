"""Deleting by command: asked about once, then one after the other."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def confirm_deletion(ids: Sequence[str], what: str, lost: str, *, yes: bool) -> None:
    """Go on only if it is meant; where nobody can be asked, --yes has to say so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("this deletes data: say --yes if you mean it.", param_hint="--yes")
    named = f"the {what} {ids[0]}" if len(ids) == 1 else f"{len(ids):,} {what}s"
    typer.confirm(f"Delete {named}? {lost}", abort=True)


def delete_each(ids: Sequence[str], delete: Callable[[str], None], *, as_json: bool) -> None:
    """Delete until one is refused; those before it are told, and stay deleted."""
    from longtake.cli.output import print_json, print_line

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
