"""`longtake models`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from longtake.cli.facts import AsJson


def print_models(
    kind: Annotated[str | None, typer.Option("--type", help="Only what makes this: image or video.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what can be made on the server you use, with prices and parameters."""
    from longtake.cli.output import print_json, print_note, print_table
    from longtake.cli.user_server import reach

    with reach() as reached:
        found = [one for one in reached.client.models() if kind in {None, one["type"]}]
    if as_json:
        print_json({"models": found})
        return
    print_table(
        ("name", "type", "credits", "state", "references", "parameters"),
        [
            (
                one["name"], one["type"], one["credits"], "usable" if one["available"] else "no key",
                _references(one["references"]), _parameters(one["parameters"]),
            )
            for one in found
        ],
        nothing="There are no such models.",
    )  # fmt: skip
    if found:
        print_note("These are the parameters' defaults; --json shows what each may be.")


def _references(bounds: Mapping[str, int]) -> str:
    return f"{bounds['least']}–{bounds['most']}" if bounds["most"] else "none"


def _parameters(specifications: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(one['default'])}" for name, one in specifications.items())


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
