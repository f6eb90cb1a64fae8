"""A run as callers see it: each scene by itself, and all together, in the form that a polling page needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtake.capabilities.scenes.outlook import NOTHING, HeldBack, Look
from longtake.capabilities.scenes.queries import Run, Scene
from longtake.capabilities.scenes.user_messages import image_words
from longtake.services.assets import Addresses, Asset
from longtake.services.assets.schemas import moment

STATES = ("waiting", "queued", "processing", "completed", "failed", "cancelled")

Images = Mapping[str, tuple[Asset, Addresses]]


def show_run(run: Run, images: Images, look: Look = NOTHING) -> dict[str, Any]:
    """Return the one form in which every route shows a run; addresses are made for this answer."""
    shown = [_show_scene(run, scene, images, look) for scene in run.scenes]
    return {
        **show_summary(run, look),
        "parameters": run.parameters,
        "scenes": shown,
        "estimated_end_at": moment(look.ends.get(run.id)),
        "held_back": _show_held_back(look.held_back.get(run.id)),
        "request_id": run.request_id,
    }


def show_summary(run: Run, look: Look = NOTHING) -> dict[str, Any]:
    """Return the form in which lists show it."""
    return {
        "id": run.id,
        "title": run.title,
        "model": run.model,
        "status": run.status,
        "created_at": moment(run.created_at),
        "cancelled_at": moment(run.cancelled_at),
        "total": _total(run, look),
        "credits": _credits(run),
    }


def _state(run: Run, scene: Scene, look: Look) -> str:
    """Return how far the scene is; what was never begun of a cancelled run never will be."""
    return "cancelled" if run.cancelled_at is not None and scene.job is None else scene.state(look.waiting)


def _show_scene(run: Run, scene: Scene, images: Images, look: Look) -> dict[str, Any]:
    job, image = scene.job, scene.image
    asset, addresses = images.get(image.asset_id or "", (None, None)) if image is not None else (None, None)
    return {
        "number": scene.number,
        "prompt": scene.prompt,
        "state": _state(run, scene, look),
        "attempt": 0 if job is None else job.attempt,
        "max_attempts": None if job is None else job.max_attempts,
        "reason": None if job is None or job.error_code is None else {"code": job.error_code, "message": job.error},
        "retry_at": None if job is None else moment(job.retry_at),
        "image_url": addresses and addresses.url,
        "thumbnail_url": addresses and addresses.thumbnail_url,
        "placeholder": asset and asset.placeholder,
        "asset_id": asset and asset.id,
        "queued_at": None if job is None else moment(job.queued_at),
        "started_at": None if job is None else moment(job.started_at),
        "ended_at": None if job is None else moment(job.completed_at),
    }


def _total(run: Run, look: Look) -> dict[str, int]:
    states = [_state(run, scene, look) for scene in run.scenes]
    images = sum(scene.image is not None for scene in run.scenes)
    percent = 100 * images // max(len(states), 1)
    return {"scenes": len(states), **{name: states.count(name) for name in STATES}, "percent": percent}


def _credits(run: Run) -> dict[str, int]:
    jobs = [job for scene in run.scenes for job in scene.jobs]
    return {
        "held": sum(job.price for job in jobs if job.live),
        "charged": sum(job.price for job in jobs if job.status == "completed"),
    }


def _show_held_back(held: HeldBack | None) -> dict[str, Any] | None:
    if held is None:
        return None
    return {"code": held.code, "message": image_words(held.code), "until": moment(held.until)}
