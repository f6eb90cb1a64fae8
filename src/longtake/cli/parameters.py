"""`--parameter name=value`: what was typed, as the model wants it."""

from collections.abc import Iterable, Sequence
from typing import Any

import typer

from longtake.client import Model

YES = {"yes", "true", "on", "1"}
NO = {"no", "false", "off", "0"}


def read_parameters(pairs: Iterable[str], models: Sequence[Model], name: str) -> dict[str, Any]:
    """Return the parameters by name; one that the model does not have is for the server to refuse."""
    specifications = next((model["parameters"] for model in models if model["name"] == name), {})
    found = {}
    for pair in pairs:
        parameter, equals, text = pair.partition("=")
        if not parameter or not equals:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE, such as aspect_ratio=16:9", param_hint="--parameter")
        found[parameter] = _value(text, specifications.get(parameter, {}))
    return found


def _value(text: str, specification: dict[str, Any]) -> Any:
    """Return the value of the parameter's kind; what cannot be one stays text, and the server says what is wrong."""
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
