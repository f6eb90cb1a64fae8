"""What generation's job handlers share: the context they run in, and how a batch of outcomes is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, bindparam, select, update

from longtake.adapters.providers.errors import ProviderError, ProviderRefused, ProviderTaskNotFound, ProviderUnavailable
from longtake.adapters.providers.provider import Failed, Provider, Running, Strange, Succeeded
from longtake.capabilities.generation.tables import UNFINISHED, tasks
from longtake.capabilities.generation.tasks import Started, Successful, Unsuccessful, end_tasks
from longtake.capability import Context
from longtake.clock import iso_timestamp
from longtake.db import Transaction
from longtake.db.dialects import NOW, Json
from longtake.engine.events import append_events
from longtake.engine.kinds import Exponential
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Snooze
from longtake.errors import LongtakeError
from longtake.services.assets import AssetLinks
from longtake.services.models import OfferedModels
from longtake.services.provider_calls import Breaker, Trouble, act_on_trouble, trouble_words

#: A query takes at most 10 s; the rest is for waiting until a connection is free.
QUERY_SECONDS = 25.0
#: After failures of our own. A task's deadline runs meanwhile, so the waits stay under a minute.
OUR_BACK_OFF = Exponential(first=3.0, most=50.0)


class JobContext:
    """The collaborators of all handlers. The engine needs the job kinds first, so it is asked for when a job runs."""

    def __init__(self, context: Context) -> None:
        self.database = context.database
        self.providers = context.providers
        self.models = context.get(OfferedModels).models
        self.storage = context.storage
        self.links = context.get(AssetLinks)
        #: Where providers reach this server; empty when they cannot.
        self.public_url = context.settings.public_url
        self.breaker = context.get(Breaker)
        self.random = context.random

    def started(self, model: str, provider_task_id: str) -> Started:
        found = self.models.get(model)
        return Started(provider_task_id, None if found is None else found.deadline)


async def query_task(
    provider: Provider, provider_task_id: str
) -> Running | Succeeded | Failed | Strange | ProviderTaskNotFound:
    """Query the provider; that it does not know the task is an answer too.

    A query that is refused says nothing about the task, which the provider works on and charges: it is waited out.
    """
    try:
        return await provider.query(provider_task_id)
    except ProviderTaskNotFound as error:
        return error
    except ProviderRefused as error:
        raise ProviderError(error.message, provider=provider.name) from error
    except ProviderError:
        raise
    except LongtakeError as error:
        raise ProviderUnavailable(error.message, provider=provider.name) from error


@dataclass
class Tally:
    """Collects the outcomes of a batch of jobs and writes them together: tasks that ended, and troubles."""

    successful: list[Successful] = field(default_factory=list)
    unsuccessful: list[Unsuccessful] = field(default_factory=list)
    troubles: dict[str, dict[str, Trouble]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, task_id: str, provider: str, outcome: Outcome) -> bool:
        """Add an outcome that every kind of job may have; return False for one that only its own kind understands."""
        match outcome:
            case Done(data=Successful() as successful):
                self.successful.append(successful)
            case Fail(data=ProviderRefused(fail_code=code), message=message) | Fail(code=code, message=message):
                self.unsuccessful.append(Unsuccessful(task_id, "failed", code, message))
            case Cancelled(reason=reason):
                self.unsuccessful.append(Unsuccessful(task_id, "cancelled", "CANCELLED", reason))
            case Snooze(data=Trouble() as trouble):
                self.troubles[provider][task_id] = trouble
            case _:
                return False
        return True

    def write(self, tx: Transaction, providers: Mapping[str, Provider]) -> None:
        end_tasks(tx, successful=self.successful, unsuccessful=self.unsuccessful)
        for name, troubles in sorted(self.troubles.items()):
            if name in providers:
                _write_changed(tx, troubles)
                # Lanes and alerts: once for each trouble that does not pass by itself.
                different = {(one.code, str(one.pause), one.alert): one for one in troubles.values()}
                for which in sorted(different):
                    act_on_trouble(tx, providers[name], different[which])


def _write_changed(tx: Transaction, troubles: Mapping[str, Trouble]) -> None:
    """Write troubles that are new to their tasks; add an event for each of them and for each failed attempt."""
    waiting = (tasks.c.id.in_(sorted(troubles)), tasks.c.status.in_(UNFINISHED))
    columns = (tasks.c.id, tasks.c.user_id, tasks.c.status, tasks.c.trouble, NOW.label("now"))
    rows = tx.execute(select(*columns).where(*waiting).order_by(tasks.c.id).with_for_update()).all()
    changed = [row for row in rows if (row.trouble or {}).get("code") != troubles[row.id].code]
    if changed:
        new = [(row.id, troubles[row.id]) for row in changed]
        written = [{"task": task, "new_trouble": {"code": one.code, "message": one.message}} for task, one in new]
        change = update(tasks).where(tasks.c.id == bindparam("task"))
        tx.execute(change.values(trouble=bindparam("new_trouble", type_=Json)), written)
    # Every failed attempt is news, even with the same code: users see which attempt comes next, and when.
    tried = [row for row in rows if troubles[row.id].attempt is not None]
    news = {row.id: row for row in [*changed, *tried]}.values()
    append_events(tx, [("task.trouble", row.id, row.user_id, _event_data(row, troubles[row.id])) for row in news])


def _event_data(row: Row[Any], trouble: Trouble) -> dict[str, Any]:
    """Return the event's data: the words that the task itself shows, and when the next attempt is due."""
    retry = None
    if trouble.attempt is not None:
        at = row.now + timedelta(seconds=trouble.seconds)
        retry = {"attempt": trouble.attempt, "of": None, "at": iso_timestamp(at)}
    words = {"code": trouble.code, "message": trouble_words(trouble.code)}
    return {"status": row.status, "trouble": words, "retry": retry}
