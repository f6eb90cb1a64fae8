"""A server that is killed in the middle: whatever was answered or not, each key still means one task."""

from __future__ import annotations

import http.client
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.api.stage import Api, place_for
from tests.wait import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.processes import Place

PRICE = 4


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = request.getfixturevalue("postgresql_url") if request.param == "postgresql" else ""
    return place_for(tmp_path, url)


def test_after_a_kill_in_the_middle_each_key_still_means_one_task(place: Place) -> None:
    """Some were answered, some were committed and not answered, some never arrived: the caller cannot tell which."""
    keys = [f"key {number}" for number in range(200)]
    told: dict[str, str] = {}
    with place.server("--no-worker") as server:
        api = Api(place, server)
        api.grant("ada", PRICE * len(keys))

        def submit(key: str) -> None:
            try:
                answer = api.generate(key=key)
            except (OSError, http.client.HTTPException):
                return
            assert answer.status == 202
            told[key] = answer.json["id"]
            if len(told) >= len(keys) // 4:
                os.kill(server.process.pid, signal.SIGKILL)

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(submit, keys))
        assert server.process.wait(timeout=PATIENCE_SECONDS) == -signal.SIGKILL
    with place.server("--no-worker") as server:
        api = Api(place, server)
        written = {key for (key,) in api.sql("SELECT key FROM idempotency_keys")}
        assert set(told) <= written < set(keys)
        repeated = {key: api.generate(key=key) for key in keys}
        assert {answer.status for answer in repeated.values()} == {202}
        assert {key: repeated[key].json["id"] for key in told} == told
        assert {key for key, answer in repeated.items() if "idempotent-replayed" in answer.headers} == written
        rows = api.written()
        holds = api.sql("SELECT count(*) FROM credit_transfers WHERE kind = 'hold'")[0][0]
        assert (rows["tasks"], rows["jobs"], holds) == (len(keys), len(keys), len(keys))
        assert api.balance() == (0, PRICE * len(keys))
