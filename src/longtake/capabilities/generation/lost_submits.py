"""The job ``generation.attach``: a submit whose answer was lost, found again by what callbacks said.

An answer may also come after it was given up for lost, from a worker that was thought dead: then it is on record.
A callback is only a hint. Each remote id it names is asked for; one that our key can see, and that no other task has,
is taken. A callback that comes just when a look for an earlier one ends cannot enqueue another; the next sweep does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, literal_column, or_, select

from longtake.adapters.providers.provider import Provider
from longtake.adapters.providers.trouble import Breaker, wait_out
from longtake.capabilities.generation.models import Model
from longtake.capabilities.generation.poll_store import resolve_unknown
from longtake.capabilities.generation.submissions import Lost, find_lost, record_accepted
from longtake.capabilities.generation.tables import ATTACH, submissions, tasks
from longtake.capabilities.generation.tasks import Started, start_task
from longtake.db import Database, Transaction
from longtake.db.dialects import later
from longtake.engine.engine import Engine
from longtake.engine.jobs import Job, JobRequest
from longtake.engine.kinds import Exponential, JobKind, Settlement
from longtake.engine.outcomes import Done, Outcome
from longtake.errors import ProviderError, ProviderTaskNotFound

#: For so long after a callback the sweep makes sure that it was looked into.
REPORT_SECONDS = 60.0


class Attaching:
    """Runs and settles attachments."""

    def __init__(
        self,
        database: Database,
        engine: Callable[[], Engine],
        providers: Mapping[str, Provider],
        models: Mapping[str, Model],
        breaker: Breaker,
        source: random.Random,
    ) -> None:
        self._database = database
        self._engine = engine
        self._providers = providers
        self._models = models
        self._breaker = breaker
        self._random = source

    def kind(self) -> JobKind:
        """Return the job kind."""
        return JobKind(ATTACH, self.run, self.settle, max_attempts=20, back_off=Exponential(5.0, 120.0))

    async def run(self, job: Job) -> Outcome:
        """Ask for each remote id that was reported."""
        provider, task_id = self._providers[job.args["provider"]], str(job.key)
        lost = await self._database.read(find_lost, task_id)
        if lost.accepted is not None:
            return Done(data=self._started(lost, lost.accepted))
        for provider_task_id in lost.reported:
            try:
                await provider.query(provider_task_id)
            except ProviderTaskNotFound:
                continue
            except ProviderError as error:
                return wait_out(error, job, provider.name, self._breaker, self._random)
            owner = await self._database.run(record_accepted, task_id, provider.name, provider_task_id)
            if owner == task_id:
                return Done(data=self._started(lost, provider_task_id))
        return Done()

    def _started(self, lost: Lost, provider_task_id: str) -> Started:
        model = self._models.get(lost.model)
        return Started(provider_task_id, None if model is None else model.deadline)

    def settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """Let the tasks that were found go on."""
        engine = self._engine()
        for one in sorted(settlements, key=lambda settlement: str(settlement.job.key)):
            if isinstance(one.outcome, Done) and isinstance(one.outcome.data, Started):
                provider = self._providers[one.job.args["provider"]]
                if start_task(tx, engine, provider, str(one.job.key), one.outcome.data, self._random):
                    resolve_unknown(tx, str(one.job.key))


def look_again(tx: Transaction, engine: Engine, providers: Mapping[str, Provider]) -> None:
    """Enqueue a look for every lost submit whose answer came late, or of which a callback told lately.

    Where a look is under way it stays the one.
    """
    lately = and_(submissions.c.fact == "reported", submissions.c.at > later(-REPORT_SECONDS))
    told = or_(submissions.c.fact == "accepted", lately)
    # Written as the index of these few rows has it, so that SQLite sees that it fits.
    review: ColumnElement[bool] = literal_column("needs_review")
    lost = (review, tasks.c.status == "pending", tasks.c.provider.in_(sorted(providers)))
    found = select(tasks.c.id, tasks.c.provider).distinct().join(submissions, submissions.c.task_id == tasks.c.id)
    engine.enqueue_many(
        tx,
        [
            JobRequest(
                ATTACH,
                {"provider": row.provider},
                key=row.id,
                lane=providers[row.provider].query_lane.name,
                subject=row.id,
            )
            for row in tx.execute(found.where(*lost, told).order_by(tasks.c.id))
        ],
    )
