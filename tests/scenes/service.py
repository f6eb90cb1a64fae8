"""A real server with the sandbox behind it, on either database, for what only whole processes show."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.api.stage import Api, place_for
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_process import SandboxProcess
    from tests.service.processes import Answer, Place

INTERNAL_SECRET = "sixteen-letters!"
RUNS = "SELECT workers.name FROM jobs JOIN workers ON workers.id = jobs.worker WHERE jobs.kind = 'scenes.image'"
PROMPTS = [f"scene {number} of a story" for number in range(1, 11)]


def scene_place(folder: Path, sandbox: SandboxProcess, database_url: str = "", **settings: str) -> Place:
    """Return a place where scenes are made by the sandbox, as fast as an account may."""
    values = {
        "gemini_api_key": sandbox.key,
        "gemini_base_url": sandbox.gemini_url,
        "scenes_per_minute": "1000",
        "scenes_at_once": "4",
        "internal_secret": INTERNAL_SECRET,
    }
    return place_for(folder, database_url, sandbox, **(values | settings))


@contextmanager
def serving(place: Place, sandbox: SandboxProcess, *arguments: str) -> Iterator[Api]:
    """Run a server."""
    with place.server(*arguments) as server:
        yield Api(place, server, sandbox)


@contextmanager
def serving_here(place: Place, sandbox: SandboxProcess, *, with_worker: bool = False) -> Iterator[Api]:
    """Run a server in this process."""
    with place.server_here(with_worker=with_worker) as server:
        yield Api(place, server, sandbox)


def new_run(api: Api, count: int = 3, *, user: str = "ada", **more: Any) -> Answer:
    """Ask for a run."""
    headers = more.pop("headers", None)
    wanted = {"scenes": [{"prompt": one} for one in PROMPTS[:count]]} | more
    return api.ask("POST", "/v1/runs", wanted, user=user, headers=headers)


def process(api: Api, seconds: float = 8, secret: str | None = INTERNAL_SECRET) -> Answer:
    """Have the queue processed by request."""
    headers = {} if secret is None else {"X-Internal-Secret": secret}
    return api.ask("POST", "/v1/internal/process", {"seconds": seconds}, user=None, headers=headers)


@contextmanager
def workers(place: Place, number: int) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Run workers as processes of their own, by process id."""
    with (place.folder / "workers.log").open("ab") as log:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "longtake", "worker"],
                cwd=place.folder, env=place.environment, stdout=log, stderr=log,
            )
            for _ in range(number)
        ]  # fmt: skip
    try:
        yield {one.pid: one for one in started}
    finally:
        for one in started:
            if one.poll() is None:
                one.kill()
            one.wait(timeout=PATIENCE_SECONDS)


def busy_worker(api: Api, known: set[int]) -> int | None:
    """Return the process among these that has an image in hand."""
    found = {int(str(name).rpartition(":")[2]) for (name,) in api.sql(RUNS)}
    return next(iter(found & known), None)
