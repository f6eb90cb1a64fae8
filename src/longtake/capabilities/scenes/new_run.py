"""Making a run: its row and its scenes in one transaction, before anybody hears of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert

from longtake.capabilities.scenes.models import SceneModel, SceneModels
from longtake.capabilities.scenes.tables import scene_runs, scenes
from longtake.clock import new_id
from longtake.db import Transaction
from longtake.db.dialects import NOW
from longtake.engine.events import append_event
from longtake.errors import InvalidPrompt, InvalidSceneCount
from longtake.plain_text import check_plain_text

COUNTS = (3, 5, 7, 10)
TITLE_LIMIT = 200


@dataclass(frozen=True, slots=True)
class NewRun:
    """A checked request and whose it is. Its id is made before, so that running the transaction again changes nothing.

    ``request_id`` is the one under which logs have the request.
    """

    user_id: str
    title: str | None
    model: SceneModel
    parameters: dict[str, Any]
    prompts: Sequence[str]
    request_id: str | None
    id: str


def check_run(
    models: SceneModels,
    user_id: str,
    *,
    title: str | None,
    model: str | None,
    parameters: Mapping[str, Any],
    prompts: Sequence[str],
    request_id: str | None,
) -> NewRun:
    """Return the run as it will be made, or raise what is wrong with it; a prompt is named by its scene's number."""
    if len(prompts) not in COUNTS:
        wanted = f"{', '.join(str(one) for one in COUNTS[:-1])} or {COUNTS[-1]}"
        raise InvalidSceneCount(f"A run has {wanted} scenes; given: {len(prompts)}.", counts=list(COUNTS))
    if title is not None:
        title = check_plain_text("title", title.strip(), most=TITLE_LIMIT) or None
    found = models.find(model)
    checked = models.check_parameters(found.name, parameters)
    words = [check_scene_prompt(models, found.name, number, one) for number, one in enumerate(prompts, start=1)]
    return NewRun(user_id, title, found, checked, words, request_id, new_id())


def check_scene_prompt(models: SceneModels, model: str, number: int, prompt: str) -> str:
    """Return a scene's prompt as it is kept, or say of which scene it is wrong."""
    try:
        return models.check_prompt(model, prompt)
    except InvalidPrompt as error:
        raise InvalidPrompt(f"Scene {number}: {error.message}", error.hint, **error.facts, scene=number) from None


def create_run(tx: Transaction, new: NewRun) -> None:
    """Write the run and its scenes; nothing is queued yet, and nothing is held."""
    tx.execute(
        insert(scene_runs).values(
            id=new.id,
            user_id=new.user_id,
            title=new.title,
            model=new.model.name,
            provider=new.model.provider,
            parameters=new.parameters,
            request_id=new.request_id,
            created_at=NOW,
        )
    )
    rows = [
        {"run_id": new.id, "position": number, "user_id": new.user_id, "prompt": prompt}
        for number, prompt in enumerate(new.prompts, start=1)
    ]
    tx.execute(insert(scenes), rows)
    data = {"status": "created", "model": new.model.name, "title": new.title, "scenes": len(rows)}
    append_event(tx, "run.created", subject=new.id, user_id=new.user_id, data=data)
