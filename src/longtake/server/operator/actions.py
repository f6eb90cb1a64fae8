"""The list of all actions. An action's arguments come from the signature of its function."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

FIRST_ARGUMENTS = 2


@dataclass(frozen=True)
class Action:
    """A function(tx, engine, *services, **arguments) that returns plain data; `writes` says which transaction."""

    name: str
    #: module:function in this folder, imported when asked for: a command needs one of them, not all they stand on.
    place: str
    writes: bool = False
    #: Needs the scope `admin` when asked over HTTP by anyone but the server's own commands.
    for_admins: bool = False
    #: What the function takes after transaction and engine, by name: parts of the process such as the vault.
    services: tuple[str, ...] = ()

    @cached_property
    def function(self) -> Callable[..., dict[str, Any]]:
        """The function itself."""
        module, name = self.place.split(":")
        found: Callable[..., dict[str, Any]] = getattr(
            importlib.import_module(f"longtake.server.operator.{module}"), name
        )
        return found

    @property
    def meaning(self) -> str:
        """What it does, in a sentence."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The function's arguments after transaction and engine, as a model that rejects unknown ones."""
        hints = get_type_hints(self.function, include_extras=True)
        parameters = list(inspect.signature(self.function).parameters.values())[FIRST_ARGUMENTS + len(self.services) :]
        fields: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is inspect.Parameter.empty else one.default)
            for one in parameters
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid", str_strip_whitespace=True), **fields)


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        Action("health", "alerts:health"),
        Action("figures.generation", "figures:figures_generation"),
        Action("runs.figures", "figures:runs_figures"),
        Action("assets.health", "assets:assets_health"),
        Action("assets.stuck", "assets:assets_stuck"),
        Action("assets.failures", "assets:assets_failures"),
        Action("assets.fix_stuck", "assets:assets_fix_stuck", writes=True),
        Action("jobs.list", "jobs:jobs_list"),
        Action("jobs.show", "jobs:jobs_show"),
        Action("jobs.retry", "jobs:jobs_retry", writes=True),
        Action("jobs.cancel", "jobs:jobs_cancel", writes=True),
        Action("lanes.list", "lanes:lanes_list"),
        Action("lanes.set", "lanes:lanes_set", writes=True),
        Action("lanes.pause", "lanes:lanes_pause", writes=True),
        Action("lanes.resume", "lanes:lanes_resume", writes=True),
        Action("kinds.list", "lanes:kinds_list"),
        Action("kinds.pause", "lanes:kinds_pause", writes=True),
        Action("kinds.resume", "lanes:kinds_resume", writes=True),
        Action("schedules.list", "lanes:schedules_list"),
        Action("schedules.run", "lanes:schedules_run", writes=True),
        Action("schedules.pause", "lanes:schedules_pause", writes=True),
        Action("schedules.resume", "lanes:schedules_resume", writes=True),
        Action("workers.list", "lanes:workers_list"),
        Action("keys.create", "keys:keys_create", writes=True, for_admins=True),
        Action("keys.list", "keys:keys_list", for_admins=True),
        Action("keys.revoke", "keys:keys_revoke", writes=True, for_admins=True),
        Action("secrets.set", "secrets:secrets_set", writes=True, for_admins=True, services=("vault",)),
        Action("secrets.list", "secrets:secrets_list", for_admins=True, services=("vault",)),
        Action("secrets.remove", "secrets:secrets_remove", writes=True, for_admins=True, services=("vault",)),
        Action("secrets.rotate", "secrets:secrets_rotate", writes=True, for_admins=True, services=("vault",)),
        Action("alerts.list", "alerts:alerts_list"),
        Action("alerts.acknowledge", "alerts:alerts_acknowledge", writes=True),
        Action("alerts.resolve", "alerts:alerts_resolve", writes=True),
        Action("credits.balance", "credits:credits_balance"),
        Action("credits.history", "credits:credits_history"),
        Action("credits.grant", "credits:credits_grant", writes=True, for_admins=True),
        Action("credits.withdraw", "credits:credits_withdraw", writes=True, for_admins=True),
        Action("credits.refund", "credits:credits_refund", writes=True, for_admins=True),
        Action("credits.audit", "credits:credits_audit", services=("credit_holders",)),
    )
}
