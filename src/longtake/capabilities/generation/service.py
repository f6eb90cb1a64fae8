"""The use cases behind the routes of generation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from longtake.capabilities.generation.errors import PublicAddressMissing
from longtake.capabilities.generation.lost_submits import find_callback_task, take_hint
from longtake.capabilities.generation.outlook import NO_OUTLOOK, Outlook, Outlooks
from longtake.capabilities.generation.schemas import show_model, show_task
from longtake.capabilities.generation.submissions import CheckedRequest, check_request
from longtake.capabilities.generation.tables import Task, TaskFilter, get_task, list_tasks, unfinished_tasks
from longtake.capabilities.generation.tasks import NewTask, TaskLimits, cancel_task, create_task
from longtake.capabilities.generation.watch import Watch
from longtake.capability import Context
from longtake.db import Transaction, planned_once
from longtake.engine.engine import Engine
from longtake.errors import NotFound, StateConflict
from longtake.http.idempotency import Answer, Keyed, once
from longtake.services.assets import Asset, AssetLinks, assets_of_tasks, retry_mirror, show_asset
from longtake.services.models import Model, OfferedModels

log = structlog.get_logger(__name__)

_REFERENCE = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True)
class TaskViews:
    """Shows tasks to their users."""

    watch: Watch
    outlooks: Outlooks
    links: AssetLinks

    async def show(self, found: Sequence[Task], results: Mapping[str, Sequence[Asset]]) -> list[dict[str, Any]]:
        """Return tasks with their results, whose links live for minutes. Unfinished ones count as watched from now."""
        for task in found:
            if task.unfinished:
                self.watch.touch(task.id, task.type)
        outlooks = await self.outlooks.of(found)
        return [
            show_task(
                task,
                [show_asset(one, await self.links.addresses(one)) for one in results.get(task.id, ())],
                outlooks.get(task.id, NO_OUTLOOK),
            )
            for task in found
        ]


class Generation:
    """Submits, reads, changes and follows tasks for their users."""

    def __init__(self, context: Context, engine: Engine) -> None:
        settings = context.settings
        self.database = context.database
        self.engine = engine
        self.offered = context.get(OfferedModels)
        self.providers = context.providers
        self.limits = TaskLimits(settings.unfinished_tasks, settings.queue_seconds)
        self.views = context.get(TaskViews)
        #: Whether providers can fetch files: from our own address, or from our storage.
        self.reachable = bool(settings.public_url) or context.storage.signs

    def lane_of(self, model: Model) -> str:
        return model.lane or self.providers[model.provider].submit_lane.name

    async def submit(
        self, user_id: str, request: CheckedRequest, key: Keyed | None, request_id: str, retry_of: str | None = None
    ) -> Answer:
        """Create the task, or return the first answer when the key was used before."""
        # Before credits are held.
        by_address = request.references and self.providers[request.model.provider].takes_references == "url"
        if by_address and not self.reachable:
            raise PublicAddressMissing(
                f"{request.model.provider} fetches reference images itself, and this server has no public address."
            )
        new = NewTask(user_id, request, self.lane_of(request.model), request_id, retry_of)
        # Read before: the answer is stored with the task, in a transaction that should be short.
        outlook = await self.views.outlooks.of_new(request.model.name, new.submit_lane)
        answer = await self.database.run(_submit, self.engine, new, self.limits, key, outlook)
        if not answer.replayed:
            self.views.outlooks.queues.join(new.submit_lane, new.id)
        return answer

    async def retry(self, user_id: str, task_id: str, key: Keyed | None, request_id: str) -> Answer:
        """Create a new task from one that failed or was cancelled; it points to the old one."""
        old = await self.database.read(get_task, user_id, task_id, as_user=user_id)
        if old.status not in {"failed", "cancelled"}:
            raise StateConflict(
                f"The task {task_id} is {old.status}: only a failed or cancelled task can be tried again.",
                task_status=old.status,
            )
        model = self.offered.find(old.model, old.type)
        # Check again: the model's limits may have changed since.
        request = check_request(model, old.prompt, old.parameters, old.references, old.conversation_id)
        return await self.submit(user_id, request, key, request_id, retry_of=old.id)

    async def show(self, user_id: str, task_id: str, wait_seconds: float = 0.0) -> dict[str, Any]:
        """Return a task, after waiting for its end for at most so many seconds."""
        task = await self.database.read(get_task, user_id, task_id, as_user=user_id)
        if task.unfinished and wait_seconds > 0:
            await self.views.watch.ended(task.id, task.type, wait_seconds)
            # Read again even if it has not ended: the caller should see what it waits for.
            task = await self.database.read(get_task, user_id, task_id, as_user=user_id)
        return (await self.show_all(user_id, [task]))[0]

    async def pending(self, user_id: str) -> list[dict[str, Any]]:
        """Return the unfinished tasks of the user; one beyond the limit tells that there are more."""
        return await self.show_all(user_id, await self.database.read(unfinished_tasks, user_id, as_user=user_id))

    async def page(self, user_id: str, matching: TaskFilter, before: str | None, limit: int) -> list[dict[str, Any]]:
        found = await self.database.read(list_tasks, user_id, matching, before, limit, as_user=user_id)
        return await self.show_all(user_id, found)

    async def show_all(self, user_id: str, found: Sequence[Task]) -> list[dict[str, Any]]:
        completed = [task.id for task in found if task.status == "completed"]
        results: Mapping[str, Sequence[Asset]] = {}
        if completed:
            results = await self.database.read(assets_of_tasks, completed, user_id, as_user=user_id)
        return await self.views.show(found, results)

    async def cancel(self, user_id: str, task_id: str) -> dict[str, Any]:
        return show_task(await self.database.run(cancel_task, user_id, task_id))

    async def retry_save(self, user_id: str, task_id: str) -> dict[str, Any]:
        await self.database.run(_retry_save, self.engine, user_id, task_id)
        return await self.show(user_id, task_id)

    async def callback(self, provider_name: str, reference: str, body: Any, headers: Mapping[str, str]) -> None:
        """Act on a provider's callback. A caller without a task's reference learns nothing, not even what exists."""
        provider = self.providers.get(provider_name)
        task_id = None
        # Do not search for text that we never made; a database may not even accept it.
        if provider is not None and _REFERENCE.fullmatch(reference):
            task_id = await self.database.read(find_callback_task, provider_name, reference)
        if provider is None or task_id is None:
            raise NotFound("No task expects this callback.")
        provider_task_id, done = provider.callback_task_id(body), "not believed"
        if provider_task_id is not None and provider.verify_callback(headers, provider_task_id):
            done = await self.database.run(take_hint, self.engine, provider, task_id, provider_task_id)
        # The first lines to look for when a provider misbehaves.
        log.info("callback", action="callback", provider=provider_name, task_id=task_id, done=done)

    async def models(self) -> list[dict[str, Any]]:
        """Return every model with its limits, price and usual duration."""
        estimates = await self.views.outlooks.estimates.all()
        return [
            show_model(model, self.offered.available(model), self.lane_of(model), estimates[model.name])
            for model in self.offered.models.values()
        ]


@planned_once
def _submit(
    tx: Transaction, engine: Engine, new: NewTask, limits: TaskLimits, key: Keyed | None, outlook: Outlook
) -> Answer:
    return once(tx, key, lambda: Answer(202, show_task(create_task(tx, engine, new, limits), outlook=outlook)))


def _retry_save(tx: Transaction, engine: Engine, user_id: str, task_id: str) -> None:
    task = get_task(tx, user_id, task_id)
    if task.status != "completed":
        message = f"The task {task_id} is {task.status}: it has no results to save."
        raise StateConflict(message, task_status=task.status)
    results = assets_of_tasks(tx, [task_id], user_id).get(task_id, ())
    retry_mirror(tx, engine, [one.id for one in results], task.request_id)
