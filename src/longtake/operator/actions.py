"""The list of all actions, and how an action's arguments follow from its function."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from longtake.operator import flow, jobs, trouble

FIRST_ARGUMENTS = 2


@dataclass(frozen=True)
class Action:
    """A function(tx, engine, **arguments) that returns plain data; `writes` says what transaction it needs."""

    name: str
    function: Callable[..., dict[str, Any]]
    writes: bool = False

    @property
    def meaning(self) -> str:
        """What it does, in a sentence."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """What the function takes besides transaction and engine, as a model that refuses all else."""
        hints = get_type_hints(self.function, include_extras=True)
        parameters = list(inspect.signature(self.function).parameters.values())[FIRST_ARGUMENTS:]
        fields: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is inspect.Parameter.empty else one.default)
            for one in parameters
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid", str_strip_whitespace=True), **fields)


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        Action("health", trouble.health),
        Action("jobs.list", jobs.jobs_list),
        Action("jobs.show", jobs.jobs_show),
        Action("jobs.retry", jobs.jobs_retry, writes=True),
        Action("jobs.cancel", jobs.jobs_cancel, writes=True),
        Action("lanes.list", flow.lanes_list),
        Action("lanes.set", flow.lanes_set, writes=True),
        Action("lanes.pause", flow.lanes_pause, writes=True),
        Action("lanes.resume", flow.lanes_resume, writes=True),
        Action("kinds.list", flow.kinds_list),
        Action("kinds.pause", flow.kinds_pause, writes=True),
        Action("kinds.resume", flow.kinds_resume, writes=True),
        Action("schedules.list", flow.schedules_list),
        Action("schedules.run", flow.schedules_run, writes=True),
        Action("schedules.pause", flow.schedules_pause, writes=True),
        Action("schedules.resume", flow.schedules_resume, writes=True),
        Action("workers.list", flow.workers_list),
        Action("alerts.list", trouble.alerts_list),
        Action("alerts.acknowledge", trouble.alerts_acknowledge, writes=True),
        Action("alerts.resolve", trouble.alerts_resolve, writes=True),
    )
}
