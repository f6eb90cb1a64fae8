"""Performing an action: find it, check its arguments, run it in one transaction, record what it changed."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from longtake.db import Transaction
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.redaction import MASK
from longtake.server.errors import InvalidActionArgument, UnknownAction
from longtake.server.operator.actions import ACTIONS, Action
from longtake.validation import field_message

_LONGEST_SHOWN = 80
#: Errors about a name, whose value says nothing.
_NOT_GIVEN = {"missing", "extra_forbidden"}


async def perform(
    engine: Engine,
    name: str,
    arguments: Mapping[str, Any],
    services: Mapping[str, Callable[[], Any]] | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Perform the action, or raise one of Longtake's errors and change nothing.

    `services` return what an action may ask for. `by` is the user who asks; None means a command on this machine.
    """
    action = find_action(name)
    checked = check_arguments(action, arguments)
    given = [(services or {})[service]() for service in action.services]
    if action.writes:
        return await engine.database.run(_perform, engine, action, given, checked, by)
    return await engine.database.read(_perform, engine, action, given, checked, by)


def find_action(name: str) -> Action:
    """Return the action with this name."""
    action = ACTIONS.get(name)
    if action is None:
        nearest = difflib.get_close_matches(name, ACTIONS, n=1)
        hint = f"Did you mean {nearest[0]}?" if nearest else f"There are: {', '.join(ACTIONS)}."
        raise UnknownAction(f"There is no operator action {name[:_LONGEST_SHOWN]!r}.", hint=hint)
    return action


def check_arguments(action: Action, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked arguments; the function's defaults apply to the others."""
    try:
        # Text from a command line or JSON alike: "5" for a number is understood, 5.5 is not.
        checked = action.arguments.model_validate(dict(arguments))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True)
        problems = [_problem(details, secret=_is_secret(action, details)) for details in found]
        known = ", ".join(action.arguments.model_fields) or "none"
        raise InvalidActionArgument(
            f"{action.name}: {' '.join(problems)}", hint=f"Arguments of {action.name}: {known}."
        ) from None
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def _perform(
    tx: Transaction, engine: Engine, action: Action, services: list[Any], arguments: dict[str, Any], by: str | None
) -> dict[str, Any]:
    result = action.function(tx, engine, *services, **arguments)
    if action.writes:
        # What operators changed can be read afterwards, in the same log as everything else.
        data = {"arguments": _recorded(arguments), **({} if by is None else {"by": by})}
        append_event(tx, "operator.action", subject=action.name, data=data)
    return result


def _recorded(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments in a form that a row can store."""
    return {name: MASK if isinstance(value, SecretStr) else value for name, value in arguments.items()}


def _is_secret(action: Action, details: ErrorDetails) -> bool:
    field = action.arguments.model_fields.get(str(details["loc"][0])) if details["loc"] else None
    return field is not None and "SecretStr" in repr(field.annotation)


def _problem(details: ErrorDetails, *, secret: bool) -> str:
    name = ".".join(str(part) for part in details["loc"] if isinstance(part, str)) or "the arguments"
    given = MASK if secret else str(details["input"])
    shown = given if len(given) <= _LONGEST_SHOWN else given[:_LONGEST_SHOWN] + "…"
    reason = field_message(details)
    return f"{name} {reason}." if details["type"] in _NOT_GIVEN else f"{name} {reason}, not {shown!r}."
