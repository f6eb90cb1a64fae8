"""Performing an action: find it, check what it is given, run it in one transaction, keep a trace of what it changed."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.errors import InvalidActionArgument, UnknownAction
from longtake.operator.actions import ACTIONS, Action

_LONGEST_SHOWN = 80


async def perform(engine: Engine, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Do it, or raise one of Longtake's errors; nothing is half done."""
    action = find_action(name)
    checked = check_arguments(action, arguments)
    if action.writes:
        return await engine.database.run(_perform, engine, action, checked)
    return await engine.database.read(_perform, engine, action, checked)


def find_action(name: str) -> Action:
    """Return the action of this name."""
    action = ACTIONS.get(name)
    if action is None:
        nearest = difflib.get_close_matches(name, ACTIONS, n=1)
        hint = f"Did you mean {nearest[0]}?" if nearest else f"There are: {', '.join(ACTIONS)}."
        raise UnknownAction(f"There is no operator action {name[:_LONGEST_SHOWN]!r}.", hint=hint)
    return action


def check_arguments(action: Action, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given, checked; what was not given is left to the function's own defaults."""
    try:
        # Text from a command line or JSON alike: "5" for a number is understood, 5.5 is not.
        checked = action.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        problems = [_problem(details) for details in error.errors(include_url=False, include_context=True)]
        known = ", ".join(action.arguments.model_fields) or "none"
        raise InvalidActionArgument(f"{action.name}: {' '.join(problems)}", hint=f"Its arguments: {known}.") from None
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def _perform(tx: Transaction, engine: Engine, action: Action, arguments: dict[str, Any]) -> dict[str, Any]:
    result = action.function(tx, engine, **arguments)
    if action.writes:
        # What operators changed can be read afterwards, in the same log as everything else.
        append_event(tx, "operator.action", subject=action.name, data={"arguments": arguments})
    return result


def _problem(details: ErrorDetails) -> str:
    name = ".".join(str(part) for part in details["loc"] if isinstance(part, str)) or "the arguments"
    given = str(details["input"])
    shown = given if len(given) <= _LONGEST_SHOWN else given[:_LONGEST_SHOWN] + "…"
    match details["type"]:
        case "missing":
            return f"{name} is missing."
        case "extra_forbidden":
            return f"{name} is not known."
        case "value_error":
            return f"{name} is {shown!r}: it {details['ctx']['error']}."
        case _:
            reason = details["msg"][0].lower() + details["msg"][1:]
            return f"{name} is {shown!r}: {reason}."
