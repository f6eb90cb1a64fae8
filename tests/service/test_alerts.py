"""Alerts: one row for one trouble, however often it is raised."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, select

from longtake import Database, Done, Engine, Job, JobKind, Outcome, Settlement, Transaction, Worker
from longtake.clock import new_id
from longtake.engine.control import retry
from longtake.engine.maintenance import rescue
from longtake.engine.tables import events, jobs
from longtake.errors import NotFound, StateConflict
from longtake.server.application import Application
from longtake.services.alerts import (
    Severity,
    acknowledge_alert,
    list_alerts,
    raise_alert,
    resolve_alert,
    resolve_alert_by_id,
)
from longtake.settings import Settings
from tests.wait import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def event_types(tx: Transaction) -> list[str]:
    return list(tx.execute(select(events.c.type).order_by(events.c.sequence)).scalars())


def test_the_same_trouble_again_is_counted_on_one_alert(database: Database) -> None:
    def again_and_again(tx: Transaction) -> list[str]:
        return [raise_alert(tx, Severity.WARNING, "DISK_LOW", f"{free} % free", "/data") for free in (9, 8, 7)]

    ids = database.run_blocking(again_and_again)
    assert len(set(ids)) == 1
    (alert,) = database.run_blocking(list_alerts)
    assert (alert["count"], alert["message"], alert["state"]) == (3, "7 % free", "open")
    assert database.run_blocking(event_types) == ["alert.raised"]


def test_another_subject_or_code_is_another_alert(database: Database) -> None:
    for code, subject in (("A", ""), ("A", "one"), ("B", "one")):
        database.run_blocking(raise_alert, Severity.INFO, code, "look", subject)
    assert len(database.run_blocking(list_alerts)) == 3


def test_trouble_that_comes_back_after_it_was_resolved_is_a_new_alert(database: Database) -> None:
    first = database.run_blocking(raise_alert, Severity.CRITICAL, "DOWN", "down")
    assert database.run_blocking(resolve_alert, "DOWN") is True
    assert database.run_blocking(resolve_alert, "DOWN") is False
    second = database.run_blocking(raise_alert, Severity.CRITICAL, "DOWN", "down again")
    assert first != second
    assert [alert["id"] for alert in database.run_blocking(list_alerts)] == [second]
    (resolved,) = database.run_blocking(list_alerts, "resolved")
    assert (resolved["id"], resolved["resolved_at"] is not None) == (first, True)
    assert database.run_blocking(event_types) == ["alert.raised", "alert.resolved", "alert.raised"]


def test_an_acknowledged_alert_goes_on_counting(database: Database) -> None:
    alert_id = database.run_blocking(raise_alert, Severity.WARNING, "SLOW", "slow")
    database.run_blocking(acknowledge_alert, alert_id, "ada")
    assert database.run_blocking(raise_alert, Severity.WARNING, "SLOW", "slow") == alert_id
    (alert,) = database.run_blocking(list_alerts, "acknowledged")
    assert (alert["acknowledged_by"], alert["count"]) == ("ada", 2)


def test_a_resolved_alert_cannot_be_acknowledged_and_an_unknown_one_is_not_found(database: Database) -> None:
    alert_id = database.run_blocking(raise_alert, Severity.WARNING, "SLOW", "slow")
    database.run_blocking(resolve_alert_by_id, alert_id)
    database.run_blocking(resolve_alert_by_id, alert_id)
    with pytest.raises(StateConflict):
        database.run_blocking(acknowledge_alert, alert_id, "ada")
    unknown = new_id()
    with pytest.raises(NotFound, match=unknown):
        database.run_blocking(acknowledge_alert, unknown, "ada")
    with pytest.raises(NotFound):
        database.run_blocking(resolve_alert_by_id, unknown)


def test_pages_of_alerts_newest_first(database: Database) -> None:
    ids = [database.run_blocking(raise_alert, Severity.INFO, "N", "n", str(number)) for number in range(5)]

    def page(tx: Transaction, before: str | None) -> list[str]:
        return [alert["id"] for alert in list_alerts(tx, before=before, limit=2)]

    assert database.run_blocking(page, None) == [ids[4], ids[3]]
    assert database.run_blocking(page, ids[3]) == [ids[2], ids[1]]


def test_a_job_that_kills_its_workers_is_a_critical_alert(database: Database, tmp_path: Path) -> None:
    engine = Application(Settings(data_dir=tmp_path), database).build()

    def die_for_the_third_time(tx: Transaction) -> str:
        engine.declare(tx)
        job = engine.enqueue(tx, "engine.prune")
        died = {
            "state": "running",
            "crashes": 2,
            "alone": True,
            "lease_token": new_id(),
            "worker": new_id(),
            "attempt": 1,
        }
        tx.execute(jobs.update().where(jobs.c.id == job.id).values(**died))
        rescue(tx, engine)
        return job.id

    job_id = database.run_blocking(die_for_the_third_time)
    (alert,) = database.run_blocking(list_alerts)
    assert (alert["severity"], alert["code"], alert["subject"]) == ("CRITICAL", "JOB_QUARANTINED", job_id)
    assert "engine.prune" in alert["message"]
    assert f"longtake jobs retry {job_id}" in alert["message"]


#: Each way in which the death of a worker ends a job for good.
LAST_DEATHS = {
    "the third crash, running alone": {"crashes": 2, "alone": True, "attempt": 3},
    "the last attempt": {"crashes": 1, "alone": False, "attempt": 5},
    "the only attempt": {"crashes": 0, "alone": False, "attempt": 1, "max_attempts": 1},
}


async def die(_job: Job) -> Outcome:
    return Done()


def refuse(_tx: Transaction, _engine: Engine, _settlements: Sequence[Settlement]) -> None:
    raise ValueError("these effects cannot be written")


def dying_jobs(database: Database, folder: Path) -> tuple[Engine, list[str]]:
    """A service whose workers died for the last time on three jobs, and on one whose end cannot be written."""
    application = Application(Settings(data_dir=folder), database)
    application.add(kinds=[JobKind("plain", die), JobKind("sour", die, settle=refuse)])
    engine = application.build()

    def prepare(tx: Transaction) -> list[str]:
        engine.declare(tx)
        ids = []
        for death in LAST_DEATHS.values():
            ids.append(engine.enqueue(tx, "plain").id)
            lost = {"state": "running", "lease_token": new_id(), "worker": new_id()}
            tx.execute(jobs.update().where(jobs.c.id == ids[-1]).values(**lost | death))
        sour = engine.enqueue(tx, "sour").id
        dead = {"state": "running", "lease_token": new_id(), "worker": new_id(), "attempt": 5}
        tx.execute(jobs.update().where(jobs.c.id == sour).values(**dead))
        return ids

    return engine, database.run_blocking(prepare)


def quarantined(tx: Transaction) -> set[str]:
    return set(tx.execute(select(events.c.subject).where(events.c.type == "job.quarantined")).scalars())


def alerted(tx: Transaction) -> set[str]:
    return {one["subject"] for one in list_alerts(tx) if one["code"] == "JOB_QUARANTINED"}


async def test_no_quarantine_is_without_its_alert(database: Database, tmp_path: Path) -> None:
    """A real worker finds the dead: first all at once, then, since one cannot be settled, one by one."""
    engine, dead = dying_jobs(database, tmp_path)
    worker = Worker(engine, poll_seconds=0.05)
    running = asyncio.create_task(worker.run())
    try:
        await until(lambda: database.read(quarantined), "the quarantines", lambda found: found == set(dead))
    finally:
        worker.stop()
        await running
    assert await database.read(alerted) == set(dead)


def test_a_job_that_is_quarantined_again_is_alerted_again(database: Database, tmp_path: Path) -> None:
    engine, dead = dying_jobs(database, tmp_path)

    def quarantine(tx: Transaction, job_id: str) -> None:
        assert rescue(tx, engine, job_id) == 1

    def again(tx: Transaction) -> None:
        retry(tx, dead[0])
        lost = {"state": "running", "lease_token": new_id(), "worker": new_id()}
        death = LAST_DEATHS["the third crash, running alone"]
        tx.execute(jobs.update().where(jobs.c.id == dead[0]).values(**lost | death))
        rescue(tx, engine, dead[0])

    database.run_blocking(quarantine, dead[0])
    database.run_blocking(again)
    (alert,) = database.run_blocking(list_alerts)
    assert (alert["subject"], alert["count"]) == (dead[0], 2)
    database.run_blocking(resolve_alert_by_id, alert["id"])
    database.run_blocking(again)
    (newer,) = database.run_blocking(list_alerts)
    assert (newer["subject"], newer["count"], newer["id"] == alert["id"]) == (dead[0], 1, False)


def test_an_alert_is_gone_with_the_transaction_that_found_it(database: Database) -> None:
    def find_and_fail(tx: Transaction) -> None:
        raise_alert(tx, Severity.WARNING, "SLOW", "slow")
        tx.execute(insert(events).values(type="x"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.run_blocking(find_and_fail)
    assert database.run_blocking(list_alerts) == []
