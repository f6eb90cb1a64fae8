"""What operators and the domain do with jobs: cancel, hurry, retry, pause."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Float, Row, and_, case, delete, insert, literal, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db import Transaction
from longtake.db.dialects import NOW, SQLITE, later
from longtake.engine.engine import Engine
from longtake.engine.events import append_event
from longtake.engine.kinds import Settlement
from longtake.engine.leases import job_from
from longtake.engine.outcomes import Cancelled
from longtake.engine.tables import KEPT, job_attempts, job_kinds, jobs, jobs_ended
from longtake.errors import NotFound, StateConflict


def cancel(tx: Transaction, job_id: str, reason: str = "cancelled") -> bool:
    """End a live job at once, in the caller's transaction, which does what the domain needs itself.

    The lease is gone with the row: what a running handler still returns is refused, and its worker stops it at
    the next beat. Returns False when the job had ended already: its own outcome won.
    """
    row = tx.execute(select(jobs).where(jobs.c.id == job_id).with_for_update()).first()
    if row is None:
        return False
    _end_cancelled(tx, row, reason)
    tx.signal("cancel")
    return True


def cancel_of_subjects(
    tx: Transaction, subjects: Sequence[str], kinds: Sequence[str], reason: str, *, wait: bool = True
) -> None:
    """End every live job of these kinds that is about one of the subjects, as ``cancel`` does.

    Call it before any other row is locked. A transaction that has locked rows which those jobs settle must not
    ``wait`` for one that settles them: such a job is left alone, and its settle finds what this transaction wrote.
    """
    about = (jobs.c.subject.in_(subjects), jobs.c.kind.in_(kinds))
    # In one order, so that two transactions that cancel or end the same jobs cannot deadlock.
    locked = select(jobs.c.id).where(*about).order_by(jobs.c.id).with_for_update(skip_locked=not wait)
    for job_id in tx.execute(locked).scalars().all():
        cancel(tx, job_id, reason)


def hurry(tx: Transaction, kind: str, keys: Sequence[str], *, untroubled: bool = False) -> int:
    """Make waiting jobs due now: there is reason to believe that looking is worth it. Returns how many there were.

    ``untroubled`` leaves those alone that wait because something went wrong: their wait has a reason of its own.
    So are those that another transaction cancels at this moment.
    """
    waiting = [jobs.c.kind == kind, jobs.c.key.in_(keys), jobs.c.state == "ready", jobs.c.due_at > NOW]
    if untroubled:
        waiting.append(jobs.c.error.is_(None))
    free = select(jobs.c.id).where(*waiting).with_for_update(skip_locked=True)
    hurried = tx.execute(update(jobs).where(jobs.c.id.in_(free)).values(due_at=NOW)).rowcount
    if hurried:
        tx.signal("jobs")
    return hurried


def look_again(tx: Transaction, kind: str, key: str, *, waiting: float, running: float) -> bool:
    """Have a job run once more because something changed: within ``waiting`` seconds, or ``running`` if it runs now.

    What a running job finds may be older than the news, so a due time after its start is a mark for the moment at
    which it is put back (see the queues). However often this is called meanwhile, it is one more run.
    """
    soon = later(literal(waiting, Float))
    waits = and_(jobs.c.state == "ready", jobs.c.due_at > soon)
    runs = and_(jobs.c.state == "running", jobs.c.due_at <= jobs.c.started_at)
    due_at = case((jobs.c.state == "ready", soon), else_=later(literal(running, Float)))
    # One statement: a job that is claimed or put back at this very moment is met in one state or the other.
    sooner = update(jobs).where(jobs.c.kind == kind, jobs.c.key == key, or_(waits, runs)).values(due_at=due_at)
    changed = tx.execute(sooner).rowcount > 0
    if changed:
        tx.signal("jobs")
    return changed


def request_cancel(tx: Transaction, engine: Engine, job_id: str) -> str:
    """Cancel a job for an operator, so that its kind's settle hears of it; return ``cancelled`` or ``requested``.

    Only a process that knows the kind can settle it; if this one does not, a worker that does carries it out.
    """
    row = tx.execute(select(jobs).where(jobs.c.id == job_id).with_for_update()).first()
    if row is None:
        state = tx.execute(select(jobs_ended.c.state).where(jobs_ended.c.id == job_id)).scalar()
        if state is None:
            raise no_job(job_id)
        raise StateConflict(f"The job {job_id} is {state}: it cannot be cancelled any more.")
    if row.kind in engine.kinds and row.state == "ready":
        _cancel_and_settle(tx, engine, [row])
        return "cancelled"
    tx.execute(update(jobs).where(jobs.c.id == job_id).values(cancel_requested_at=NOW))
    tx.signal("cancel")
    return "requested"


def cancels_requested(tx: Transaction, engine: Engine) -> list[str]:
    """Return the waiting jobs of our kinds that are to be cancelled. Running ones are stopped by their worker."""
    wanted = (jobs.c.cancel_requested_at.is_not(None), jobs.c.state == "ready", jobs.c.kind.in_(engine.kinds))
    return list(tx.execute(select(jobs.c.id).where(*wanted)).scalars())


def carry_out_cancel(tx: Transaction, engine: Engine, job_id: str) -> None:
    """Cancel one of them, in a transaction of its own: one that cannot be settled must not hold up the others."""
    wanted = (jobs.c.id == job_id, jobs.c.cancel_requested_at.is_not(None), jobs.c.state == "ready")
    _cancel_and_settle(tx, engine, tx.execute(select(jobs).where(*wanted).with_for_update(skip_locked=True)).all())


def retry(tx: Transaction, job_id: str) -> None:
    """Let a failed or cancelled job wait again, with all its attempts; its history stays."""
    ended = jobs_ended.c.id == job_id
    row = tx.execute(select(jobs_ended).where(ended).with_for_update()).first()
    if row is None:
        live = tx.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar()
        if live is None:
            raise no_job(job_id)
        raise StateConflict(f"The job {job_id} is {live}: only a failed or cancelled job can be retried.")
    if row.state == "done":
        raise StateConflict(f"The job {job_id} is done: doing it again would repeat its effects.")
    kept = {name: getattr(row, name) for name in KEPT if name not in {"attempt", "crashes", "worker", "started_at"}}
    fresh = {"state": "ready", "attempt": 0, "crashes": 0, "alone": False, "due_at": NOW, "error": row.error}
    tx.execute(delete(jobs_ended).where(ended))
    again = (sqlite if tx.dialect == SQLITE else postgresql).insert(jobs).values(**kept, **fresh)
    if tx.execute(again.on_conflict_do_nothing().returning(jobs.c.id)).first() is None:
        twin = tx.execute(select(jobs.c.id).where(jobs.c.kind == row.kind, jobs.c.key == row.key)).scalar()
        raise StateConflict(f"The job {row.id} cannot be retried: {twin} is live and has the same key {row.key!r}.")
    append_event(tx, "job.retried", subject=job_id, data={"kind": row.kind})
    tx.signal("jobs")


def pause_kind(tx: Transaction, name: str, *, paused: bool) -> None:
    """Let no job of the kind start any more, or let them start again."""
    if tx.execute(update(job_kinds).where(job_kinds.c.name == name).values(paused=paused)).rowcount == 0:
        raise NotFound(f"There is no job kind {name!r}.")


def _cancel_and_settle(tx: Transaction, engine: Engine, rows: Sequence[Row[Any]]) -> None:
    for row in rows:
        _end_cancelled(tx, row, "cancelled by an operator")
        settle = engine.kinds[row.kind].settle
        if settle is not None:
            settle(tx, engine, [Settlement(job_from(row), Cancelled("cancelled by an operator"))])


def _end_cancelled(tx: Transaction, row: Row[Any], reason: str) -> None:
    error = {"code": "CANCELLED", "message": reason}
    kept = {name: getattr(row, name) for name in KEPT}
    tx.execute(delete(jobs).where(jobs.c.id == row.id))
    tx.execute(insert(jobs_ended).values(**kept, state="cancelled", ended_at=NOW, error=error))
    if row.state == "running":
        values = {"job_id": row.id, "attempt": row.attempt, "outcome": "cancelled", "worker": row.worker}
        tx.execute(insert(job_attempts).values(**values, started_at=row.started_at, ended_at=NOW, error=error))
    append_event(tx, "job.cancelled", subject=row.id, data={"kind": row.kind, "code": "CANCELLED"})


def no_job(job_id: str) -> NotFound:
    """Return the error for an id that no job has."""
    return NotFound(f"There is no job {job_id!r}.", hint="`longtake jobs list` shows the newest; old ones are removed.")
