"""What callers hear while the database is away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proofs.service.test_web_readiness import Switch
from tests.api.stage import Api, assert_problem, place_for
from tests.wait import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.databases import PostgresqlServer


def test_while_the_database_is_away_the_answer_is_503_and_the_same_key_works_later(
    tmp_path: Path, postgresql_url: str, postgresql_server: PostgresqlServer
) -> None:
    switch = Switch(postgresql_server.admin_url(), urlsplit(postgresql_url).path[1:])
    place = place_for(tmp_path, postgresql_url)
    with place.server("--no-worker") as server:
        api = Api(place, server)
        api.grant("ada", 100)
        switch.off()
        asked = [
            lambda: api.generate(key="later"),
            lambda: api.ask("GET", "/v1/tasks"),
            lambda: api.ask("POST", "/v1/conversations", {}),
            lambda: api.ask("GET", "/v1/models"),
        ]
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda one: one(), asked))
        for answer in answers:
            assert_problem(answer, 503, "DATABASE_UNAVAILABLE")
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json["hint"]
            # Where the database is, and under what name, is nobody's business outside.
            assert answer.json["detail"] == "PostgreSQL cannot be reached."
        assert_problem(api.ask("GET", "/readyz", user=None), 503, "NOT_READY")
        assert api.ask("GET", "/healthz", user=None).status == 200
        switch.on()
        accepted = wait_for(lambda: (found := api.generate(key="later")).status == 202 and found, "its return")
        assert "idempotent-replayed" not in accepted.headers
        assert (api.written()["tasks"], api.balance()) == (1, (96, 4))
