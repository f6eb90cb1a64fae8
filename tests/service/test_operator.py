"""Operators' actions, on both databases: what they return, what they refuse, and what they leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from sqlalchemy import select

from longtake import Database, Done, Engine, Job, JobKind, Lane, Schedule, Transaction
from longtake.clock import new_id
from longtake.engine import queries
from longtake.engine.errors import InvalidDefinition
from longtake.engine.leases import register_worker
from longtake.engine.tables import events
from longtake.errors import InvalidActionArgument, NotFound
from tests.operators import ACTIONS, perform
from tests.service.past import end_job

if TYPE_CHECKING:
    from collections.abc import Callable


async def handler(_job: Job) -> Done:
    return Done()


@pytest.fixture
async def engine(database: Database) -> Engine:
    engine = Engine(
        database,
        [JobKind("video", handler), JobKind("poster", handler, lane="posters")],
        [Lane("posters", max_running=2)],
        [Schedule("nightly", "video", every=3600)],
    )
    await engine.start()
    return engine


@pytest.fixture
def enqueue(engine: Engine) -> Callable[..., str]:
    def enqueue(kind: str = "video", **options: Any) -> str:
        def write(tx: Transaction) -> str:
            return engine.enqueue(tx, kind, {}, **options).id

        return engine.database.run_blocking(write)

    return enqueue


async def ids(engine: Engine, **filters: Any) -> list[str]:
    return [job["id"] for job in (await perform(engine, "jobs.list", filters))["jobs"]]


async def test_jobs_are_listed_newest_first_live_and_ended_together(
    engine: Engine, enqueue: Callable[..., str]
) -> None:
    jobs = [enqueue() for _ in range(5)]
    for job in (jobs[1], jobs[4]):
        engine.database.run_blocking(end_job, job, "done")
    assert await ids(engine) == jobs[::-1]
    assert await ids(engine, state="done") == [jobs[4], jobs[1]]
    assert await ids(engine, state="ready") == [jobs[3], jobs[2], jobs[0]]


async def test_a_page_ends_with_the_cursor_of_the_next(engine: Engine, enqueue: Callable[..., str]) -> None:
    jobs = [enqueue() for _ in range(5)]
    engine.database.run_blocking(end_job, jobs[2], "done")
    seen, before = [], None
    while True:
        page = await perform(engine, "jobs.list", {"limit": 2, "before": before})
        seen += [job["id"] for job in page["jobs"]]
        before = page["next"]
        if before is None:
            break
    assert seen == jobs[::-1]


async def test_each_filter_picks_its_jobs(engine: Engine, enqueue: Callable[..., str]) -> None:
    plain, poster = enqueue(), enqueue("poster")
    about, asked = enqueue(subject="asset-1"), enqueue(request_id="request-1")
    broken = enqueue()
    engine.database.run_blocking(end_job, broken, "failed", "NO_ROOM")
    assert await ids(engine, kind="poster") == [poster]
    assert await ids(engine, lane="posters") == [poster]
    assert await ids(engine, subject="asset-1") == [about]
    assert await ids(engine, request_id="request-1") == [asked]
    assert await ids(engine, error_code="NO_ROOM") == [broken]
    assert await ids(engine, state="failed") == [broken]
    assert await ids(engine, state="running") == []
    assert plain in await ids(engine, lane="default")


async def test_a_job_is_shown_with_its_story_and_without_its_lease(engine: Engine, enqueue: Callable[..., str]) -> None:
    job = enqueue()
    engine.database.run_blocking(end_job, job, "failed", "NO_ROOM")
    shown = await perform(engine, "jobs.show", {"id": job})
    assert shown["job"]["error"]["code"] == "NO_ROOM"
    assert [attempt["outcome"] for attempt in shown["attempts"]] == ["failed"]
    assert [event["type"] for event in shown["events"]] == ["job.failed"]
    assert shown["worker"] is None
    assert b"lease_token" not in orjson.dumps(shown)


async def test_a_running_job_is_shown_with_its_worker(engine: Engine, enqueue: Callable[..., str]) -> None:
    job, worker = enqueue(), new_id()
    incarnation = engine.database.incarnation
    engine.database.run_blocking(register_worker, worker, "here", incarnation, 30.0)

    def claim(tx: Transaction) -> int:
        return len(engine.exchange(tx, [], list(_queues(engine)), worker, 1, False).jobs)

    assert engine.database.run_blocking(claim) == 1
    shown = await perform(engine, "jobs.show", {"id": job})
    assert (shown["worker"]["name"], shown["job"]["state"]) == ("here", "running")
    assert "lease_token" not in shown["job"]
    (listed,) = (await perform(engine, "workers.list", {}))["workers"]
    assert (listed["running"], listed["alive"]) == (1, True)
    assert 0 < listed["lease_left_seconds"] <= 30


def _queues(engine: Engine) -> Any:
    from longtake.engine.queue import QueueName

    return [QueueName(kind.lane, kind.name, kind.priority) for kind in engine.kinds.values()]


async def test_what_cannot_be_retried_does_not_keep_the_others(engine: Engine, enqueue: Callable[..., str]) -> None:
    failed, done, waiting, unknown = enqueue(), enqueue(), enqueue(), new_id()
    engine.database.run_blocking(end_job, failed, "failed", "NO_ROOM")
    engine.database.run_blocking(end_job, done, "done")
    result = await perform(engine, "jobs.retry", {"ids": [failed, done, waiting, unknown]})
    assert result["changed"] == [{"id": failed, "state": "ready"}]
    assert [(one["id"], one["code"]) for one in result["refused"]] == [
        (done, "STATE_CONFLICT"),
        (waiting, "STATE_CONFLICT"),
        (unknown, "NOT_FOUND"),
    ]
    assert failed in await ids(engine, state="ready")


async def test_cancel_is_done_at_once_or_requested_of_a_worker(engine: Engine, enqueue: Callable[..., str]) -> None:
    known, foreign = enqueue(), enqueue("poster")
    stranger = Engine(engine.database, [engine.kinds["video"]])
    result = await perform(stranger, "jobs.cancel", {"ids": [known, foreign, known]})
    assert result["changed"] == [{"id": known, "state": "cancelled"}, {"id": foreign, "state": "requested"}]
    assert await ids(engine, state="cancelled") == [known]


async def test_a_lane_keeps_the_limits_that_are_not_mentioned(engine: Engine) -> None:
    await perform(engine, "lanes.set", {"name": "mail", "max_running": 4, "rate_count": 10, "rate_seconds": 60})
    changed = await perform(engine, "lanes.set", {"name": "mail", "spacing_seconds": 0.5})
    assert (changed["max_running"], changed["rate_count"], changed["spacing_seconds"]) == (4, 10, 0.5)
    changed = await perform(engine, "lanes.set", {"name": "mail", "max_running": None})
    assert (changed["max_running"], changed["rate_count"]) == (None, 10)
    changed = await perform(engine, "lanes.set", {"name": "mail", "burst": 5})
    changed = await perform(engine, "lanes.set", {"name": "mail", "rate_count": 3})
    assert (changed["rate_count"], changed["burst"]) == (3, 3)
    lanes = {lane["name"]: lane for lane in (await perform(engine, "lanes.list", {}))["lanes"]}
    assert (lanes["mail"]["rate_count"], lanes["mail"]["rate_seconds"]) == (3, 60)


async def test_half_a_rate_and_an_impossible_burst_are_refused(engine: Engine) -> None:
    with pytest.raises(InvalidActionArgument, match="rate_count and rate_seconds belong together"):
        await perform(engine, "lanes.set", {"name": "mail", "rate_count": 3})
    with pytest.raises(InvalidDefinition, match="burst 9"):
        await perform(engine, "lanes.set", {"name": "mail", "rate_count": 3, "rate_seconds": 1, "burst": 9})


async def test_pausing_several_is_all_or_nothing(engine: Engine) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await perform(engine, "lanes.pause", {"names": ["posters", "nowhere"]})
    assert not any(lane["paused"] for lane in (await perform(engine, "lanes.list", {}))["lanes"])


@pytest.mark.parametrize(("what", "name"), [("lanes", "posters"), ("kinds", "poster"), ("schedules", "nightly")])
async def test_what_is_paused_is_listed_so_until_it_is_resumed(engine: Engine, what: str, name: str) -> None:
    async def paused() -> list[str]:
        return [one["name"] for one in (await perform(engine, f"{what}.list", {}))[what] if one["paused"]]

    await perform(engine, f"{what}.pause", {"names": [name]})
    assert await paused() == [name]
    await perform(engine, f"{what}.resume", {"names": [name]})
    assert await paused() == []
    with pytest.raises(NotFound):
        await perform(engine, f"{what}.resume", {"names": ["nothing"]})


async def test_a_schedule_run_by_hand_never_has_two_jobs(engine: Engine) -> None:
    first = await perform(engine, "schedules.run", {"name": "nightly"})
    second = await perform(engine, "schedules.run", {"name": "nightly"})
    assert (first["created"], second["created"]) == (True, False)
    assert first["job_id"] == second["job_id"]
    (schedule,) = (await perform(engine, "schedules.list", {}))["schedules"]
    assert schedule["last_job_id"] == first["job_id"]


async def test_counts_stop_at_their_limit(
    engine: Engine, enqueue: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        enqueue()
    enqueue("poster")
    enqueue("poster", lane="default", priority=0)
    monkeypatch.setattr(queries, "COUNT_LIMIT", 3)
    kinds = {kind["name"]: kind for kind in (await perform(engine, "kinds.list", {}))["kinds"]}
    assert (kinds["video"]["ready"], kinds["video"]["ready_is_more"]) == (3, True)
    assert (kinds["poster"]["ready"], kinds["poster"]["ready_is_more"]) == (2, False)
    lanes = {lane["name"]: lane for lane in (await perform(engine, "lanes.list", {}))["lanes"]}
    assert (lanes["posters"]["ready"], lanes["posters"]["ready_is_more"]) == (1, False)
    assert lanes["default"]["ready_is_more"] is True


async def test_health_says_what_waits_and_what_is_wrong(engine: Engine, enqueue: Callable[..., str]) -> None:
    enqueue()
    await perform(engine, "lanes.pause", {"names": ["posters"]})
    health = await perform(engine, "health", {})
    assert health["database"] == engine.database.dialect
    assert health["jobs"] == {"ready": 1, "ready_is_more": False, "running": 0}
    assert (health["workers"], health["paused_lanes"], health["alerts"]) == (0, ["posters"], {})


async def test_what_operators_change_is_in_the_events_and_what_they_read_is_not(engine: Engine) -> None:
    await perform(engine, "lanes.list", {})
    await perform(engine, "lanes.pause", {"names": ["posters"], "reason": "maintenance"})

    def read(tx: Transaction) -> list[Any]:
        return list(tx.execute(select(events.c.subject, events.c.data).where(events.c.type == "operator.action")).all())

    ((subject, data),) = engine.database.run_blocking(read)
    assert (subject, data["arguments"]["reason"]) == ("lanes.pause", "maintenance")


async def test_every_list_is_json(engine: Engine, enqueue: Callable[..., str]) -> None:
    enqueue()
    for name, action in ACTIONS.items():
        required = [field for field in action.arguments.model_fields.values() if field.is_required()]
        if not action.writes and not required:
            assert orjson.loads(orjson.dumps(await perform(engine, name, {})))
        assert action.meaning.endswith(".")
