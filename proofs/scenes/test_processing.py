"""POST /v1/internal/process in real time: what does not fit into it, and what a killed process left."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tests.api.stage import Api, assert_problem
from tests.scenes.service import busy_worker, new_run, process, scene_place, serving, workers
from tests.scenes.test_processing import status
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.sandbox_process import SandboxProcess


@pytest.fixture
def api(database_url: str, tmp_path: Path, sandbox: SandboxProcess) -> Iterator[Api]:
    url = database_url if database_url.startswith("postgresql") else ""
    with serving(scene_place(tmp_path, sandbox, url), sandbox, "--no-worker") as found:
        found.grant()
        yield found


def test_more_at_once_than_a_server_does_are_refused(api: Api) -> None:
    assert api.sandbox is not None
    api.sandbox.faults("delay", delay=600.0, route="submit")
    new_run(api, 10, advance=True)
    # Long enough for the third to have begun before the first ends, on a busy machine too.
    threads = [threading.Thread(target=process, args=(api, 15)) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: api.sql("SELECT count(*) FROM workers") == [(3,)], "three workers")
    refused = process(api, 6)
    assert_problem(refused, 429, "PROCESSINGS_TOO_MANY")
    assert refused.headers["retry-after"] == "5"
    for thread in threads:
        thread.join()


def processing(api: Api, run_id: str) -> int:
    return int(api.ask("GET", f"/v1/runs/{run_id}").json["total"]["processing"])


def test_it_alone_rescues_what_a_killed_process_left(
    postgresql_url: str, tmp_path: Path, sandbox: SandboxProcess
) -> None:
    settings = {"lease_seconds": "2", "heartbeat_seconds": "0.5", "scenes_at_once": "1"}
    place = scene_place(tmp_path, sandbox, postgresql_url, **settings)
    with serving(place, sandbox, "--no-worker") as api:
        api.grant()
        rule = sandbox.faults("delay", delay=60.0, route="submit")
        run_id = new_run(api, 3, advance=True).json["id"]
        with workers(place, 1) as started:
            killed = wait_for(lambda: sandbox.calls(route="submit") and busy_worker(api, set(started)), "a call")
            # That the try has begun is written while the provider works.
            wait_for(lambda: processing(api, run_id) == 1, "an image is being made")
            os.kill(killed, signal.SIGKILL)
        sandbox.ask("DELETE", f"/_faults/{rule}")
        assert processing(api, run_id) == 1
        wait_for(lambda: process(api, 12).status == 200 and status(api, run_id) == "completed", "the rescue")
        attempts = [scene["attempt"] for scene in api.ask("GET", f"/v1/runs/{run_id}").json["scenes"]]
        assert sorted(attempts) == [1, 1, 2]
        assert api.balance() == (1_000 - 3 * 5, 0)
