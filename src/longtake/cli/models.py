"""`longtake models`, and parameters as a model takes them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtake.terminal.options import AsJson

if TYPE_CHECKING:
    from longtake.client import Model

YES = {"yes", "true", "on", "1"}
NO = {"no", "false", "off", "0"}


def print_models(
    kind: Annotated[str | None, typer.Option("--type", help="Only models that make this: image or video.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the models of the server you use, with prices and parameters."""
    from longtake.cli.server import connect
    from longtake.terminal.output import print_json, print_note, print_table

    with connect() as server:
        found = [one for one in server.client.models() if kind in {None, one["type"]}]
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
        nothing="No models match." if kind else "There are no models.",
    )  # fmt: skip
    if found:
        print_note("The parameters are shown with their defaults; --json shows the allowed values.")


def _references(bounds: Mapping[str, int]) -> str:
    return f"{bounds['least']}–{bounds['most']}" if bounds["most"] else "none"


def _parameters(specifications: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_shown(one['default'])}" for name, one in specifications.items())


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_parameters(pairs: Iterable[str], models: "Sequence[Model]", name: str) -> dict[str, Any]:
    """Return the parameters by name. Unknown parameters are left for the server to refuse."""
    specifications = next((model["parameters"] for model in models if model["name"] == name), {})
    found = {}
    for pair in pairs:
        parameter, equals, text = pair.partition("=")
        if not parameter or not equals:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE, such as aspect_ratio=16:9", param_hint="--parameter")
        found[parameter] = _value(text, specifications.get(parameter, {}))
    return found


def _value(text: str, specification: Mapping[str, Any]) -> Any:
    """Convert to the parameter's kind. What cannot be converted stays text, for the server to refuse."""
    kind = specification.get("kind")
    if kind == "choice":
        return next((choice for choice in specification["choices"] if str(choice) == text), text)
    if kind == "yes_no":
        return True if text.lower() in YES else False if text.lower() in NO else text
    if kind in {"whole", "number"}:
        try:
            return int(text) if kind == "whole" else float(text)
        except ValueError:
            return text
    return text
