"""Two workers, a caller of the process endpoint and one lane between them: the pace holds, also when one is killed."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.sandbox_process import running_sandbox
from tests.scenes.service import busy_worker, new_run, process, scene_place, serving, workers
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.api.stage import Api

#: Sixty a minute are a second apart; an image takes less, so that the spacing is what counts. A process that gets no
#: turn for a lease is rightly taken for dead, and what it does then is twice: on a busy machine that takes seconds.
SETTINGS = {
    "scenes_per_minute": "60",
    "scenes_at_once": "1",
    "lease_seconds": "10",
    "heartbeat_seconds": "1",
    "stop_grace_seconds": "2",
}
SPACING = 1.0
IMAGE_SECONDS = 0.5


@contextmanager
def calling(api: Api) -> Iterator[list[dict[str, Any]]]:
    """Have the queue processed by request, one request after another."""
    answers: list[dict[str, Any]] = []
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            answers.append(process(api, 6).json)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
def test_starts_are_never_too_close_whoever_makes_them_and_whoever_dies(postgresql_url: str, tmp_path: Path) -> None:
    with running_sandbox(seconds={"image": IMAGE_SECONDS}) as sandbox:
        place = scene_place(tmp_path, sandbox, postgresql_url, **SETTINGS)
        with serving(place, sandbox, "--no-worker") as api, workers(place, 2) as started:
            api.grant()
            run_ids = [new_run(api, 10, advance=True).json["id"] for _ in range(2)]
            with calling(api) as answers:
                wait_for(lambda: len(sandbox.calls(route="submit")) >= 3, "three calls")
                killed = wait_for(lambda: busy_worker(api, set(started)), "a worker with an image in hand")
                os.kill(killed, signal.SIGKILL)
                wait_for(lambda: finished(api, run_ids), "the end of both runs", seconds=90)
            calls = sandbox.calls(route="submit")
            runs = [api.ask("GET", f"/v1/runs/{run_id}").json for run_id in run_ids]
            balance, audit = api.balance(), api.server.operate("credits.audit").json
    starts = [call["monotonic"] for call in calls]
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert min(gaps) >= SPACING, sorted(gaps)[:3]
    ends = [call["monotonic"] + call["milliseconds"] / 1000 for call in calls]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False)), "two at a time"
    assert [run["status"] for run in runs] == ["completed", "completed"]
    # What the killed one had in hand was asked for once more, and nothing else was.
    attempts = [scene["attempt"] for run in runs for scene in run["scenes"]]
    assert sorted(attempts)[-2:] in ([1, 1], [1, 2])
    assert len(calls) <= 20 + 1
    assert balance == (1_000 - 20 * 5, 0)
    assert audit["findings"] == []
    assert sum(answer["finished"] for answer in answers) > 0, "the endpoint never had anything to do"


def finished(api: Api, run_ids: list[str]) -> bool:
    return all(api.ask("GET", f"/v1/runs/{one}").json["status"] != "generating" for one in run_ids)
