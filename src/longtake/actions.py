"""Operators' actions: what a package has for operators, the types of arguments, and how an action is performed.

A package with actions has a module `operator` with one object, `OPERATOR`. It is found by its name, so that a command
performs an action on the database without building an application.

``await actions.perform(engine, "lanes.pause", {"name": "posters"})`` checks the arguments, runs the action in one
transaction and returns plain data. The command line and ``POST /v1/operator/{action}`` are two ways to call it.
"""

from __future__ import annotations

import difflib
import inspect
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, create_model

from longtake.engine.events import append_event
from longtake.errors import InvalidActionArgument, UnknownAction
from longtake.redaction import MASK
from longtake.validation import field_message

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from longtake.db import Transaction
    from longtake.engine.engine import Engine

_FIRST_ARGUMENTS = 2
_LONGEST_SHOWN = 80
#: Errors about a name, whose value says nothing.
_NOT_GIVEN = {"missing", "extra_forbidden"}


def _check_identifier(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError("must be an id such as 0199c1f2-7a40-7cc3-98c4-dc0c0c07398f") from None


Identifier = Annotated[str, AfterValidator(_check_identifier)]
#: As many as are changed in one transaction.
Identifiers = Annotated[list[Identifier], Field(min_length=1, max_length=500)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[list[Name], Field(min_length=1, max_length=500)]
Sentence = Annotated[str, Field(min_length=1, max_length=500)]
Limit = Annotated[int, Field(ge=1, le=500)]


@dataclass(frozen=True)
class Action:
    """A function(tx, engine, *takes, **arguments) that returns plain data; `writes` says which transaction."""

    name: str
    function: Callable[..., dict[str, Any]]
    writes: bool = False
    #: Needs the scope `admin` when asked over HTTP by anyone but the server's own commands.
    for_admins: bool = False
    #: What the function takes after transaction and engine: `vault`, or the name of another field of Operator, which
    #: brings what all packages have there.
    takes: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """What it does, in a sentence."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The function's arguments after those, as a model that rejects unknown ones."""
        hints = get_type_hints(self.function, include_extras=True)
        parameters = list(inspect.signature(self.function).parameters.values())[_FIRST_ARGUMENTS + len(self.takes) :]
        fields: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is inspect.Parameter.empty else one.default)
            for one in parameters
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid", str_strip_whitespace=True), **fields)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the checked arguments; the function's defaults apply to the others."""
        try:
            # Text from a command line or JSON alike: "5" for a number is understood, 5.5 is not.
            checked = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            problems = [self._problem(details) for details in error.errors(include_url=False, include_context=True)]
            known = ", ".join(self.arguments.model_fields) or "none"
            raise InvalidActionArgument(
                f"{self.name}: {' '.join(problems)}", hint=f"Arguments of {self.name}: {known}."
            ) from None
        return {name: getattr(checked, name) for name in checked.model_fields_set}

    def _problem(self, details: ErrorDetails) -> str:
        name = ".".join(str(part) for part in details["loc"] if isinstance(part, str)) or "the arguments"
        field = self.arguments.model_fields.get(str(details["loc"][0])) if details["loc"] else None
        secret = field is not None and "SecretStr" in repr(field.annotation)
        given = MASK if secret else str(details["input"])
        shown = given if len(given) <= _LONGEST_SHOWN else given[:_LONGEST_SHOWN] + "…"
        reason = field_message(details)
        return f"{name} {reason}." if details["type"] in _NOT_GIVEN else f"{name} {reason}, not {shown!r}."


@dataclass(frozen=True, slots=True)
class CreditHolder:
    """Rows that credits are held for, as queries that both databases understand; the audit compares them with holds."""

    #: Selects id, user_id and status: `pending`, `running`, `completed`, `failed` or `cancelled`.
    rows: str
    #: Selects the ids of refunded rows and the credits that they say they gave back; empty where rows do not say.
    refunds: str = ""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What a package has for operators."""

    actions: Sequence[Action] = ()
    credit_holders: Sequence[CreditHolder] = ()
    #: Functions (transaction, vault) that seal the package's secrets again, and return the names of those that changed.
    resealers: Sequence[Callable[[Transaction, Any], list[str]]] = ()


class Actions:
    """The actions of packages. A package is loaded only if none before it has the action that is asked for."""

    def __init__(self, packages: Sequence[str], vault: Callable[[], Any]) -> None:
        self._packages = packages
        self._vault = vault

    def __iter__(self) -> Iterator[Action]:
        """Yield the actions of one package after the other."""
        for operator in self._operators():
            yield from operator.actions

    def get(self, name: str) -> Action | None:
        """Return the action with this name, if there is one."""
        return next((one for one in self if one.name == name), None)

    async def perform(
        self, engine: Engine, name: str, arguments: Mapping[str, Any], by: str | None = None
    ) -> dict[str, Any]:
        """Perform the action, or raise one of Longtake's errors and change nothing.

        `by` is the user who asks; None means a command on this machine.
        """
        action = self.get(name) or self._refuse(name)
        checked = action.check(arguments)
        taken = [self._vault() if field == "vault" else self._every(field) for field in action.takes]
        if action.writes:
            return await engine.database.run(_perform, engine, action, taken, checked, by)
        return await engine.database.read(_perform, engine, action, taken, checked, by)

    def _operators(self) -> Iterator[Operator]:
        return filter(None, map(_operator_of, self._packages))

    def _every(self, field: str) -> list[Any]:
        return [one for operator in self._operators() for one in getattr(operator, field)]

    def _refuse(self, name: str) -> Action:
        names = [one.name for one in self]
        nearest = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {nearest[0]}?" if nearest else f"There are: {', '.join(names)}."
        raise UnknownAction(f"There is no operator action {name[:_LONGEST_SHOWN]!r}.", hint=hint)


@cache
def _operator_of(package: str) -> Operator | None:
    if find_spec(f"{package}.operator") is None:
        return None
    operator: Operator = import_module(f"{package}.operator").OPERATOR
    return operator


def _perform(
    tx: Transaction, engine: Engine, action: Action, taken: list[Any], arguments: dict[str, Any], by: str | None
) -> dict[str, Any]:
    result = action.function(tx, engine, *taken, **arguments)
    if action.writes:
        # What operators changed can be read afterwards, in the same log as everything else.
        recorded = {name: MASK if isinstance(value, SecretStr) else value for name, value in arguments.items()}
        data = {"arguments": recorded, **({} if by is None else {"by": by})}
        append_event(tx, "operator.action", subject=action.name, data=data)
    return result
