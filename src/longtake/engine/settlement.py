"""Finishing: the job's transition, its domain rows, its follow-up jobs and its events, in ONE transaction.

Every transition is fenced by the lease token. A job that is no longer ours leaves no trace of this run: not in its
own row, not in the domain, not in the queue.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from longtake.db.dialects import POSTGRESQL
from longtake.engine.events import append_event
from longtake.engine.kinds import Settlement
from longtake.engine.lane_store import hold_lane
from longtake.engine.queue import Ending, PutBack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longtake.db import Transaction
    from longtake.engine.engine import Engine
    from longtake.engine.outcomes import Verdict


def finish(tx: Transaction, engine: Engine, verdicts: Sequence[Verdict]) -> set[str]:
    """Apply a batch of verdicts; return the ids of the jobs that were still ours.

    Rows are locked in one order: jobs by id, what settle functions lock, lanes by name, then the keys of new jobs.
    """
    endings = [verdict.change for verdict in verdicts if isinstance(verdict.change, Ending)]
    returned = [verdict.change for verdict in verdicts if isinstance(verdict.change, PutBack)]
    held = engine.queue.end(tx, endings, returned) if endings else set()
    if returned:
        held |= engine.queue.put_back(tx, returned)
    ours = [verdict for verdict in verdicts if verdict.job.id in held]
    _settle(tx, engine, ours)
    _hold_lanes(tx, ours)
    follow_ups = [request for verdict in ours if verdict.outcome for request in verdict.outcome.then]
    if follow_ups:
        engine.enqueue_many(tx, follow_ups)
    return held


def split(engine: Engine, verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Return the verdicts in parts, one for each transaction.

    On PostgreSQL a transaction settles jobs of one kind: what the settle functions of two kinds lock, one after the
    other, another worker could lock crosswise. SQLite has one writer at a time.
    """
    parts: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        kind = engine.kinds.get(verdict.job.kind)
        settles = verdict.outcome is not None and kind is not None and kind.settle is not None
        parts[verdict.job.kind if settles and engine.database.dialect == POSTGRESQL else ""].append(verdict)
    # Jobs that have nothing to settle go along with any others.
    rest = parts.pop("", [])
    first, *others = list(parts.values()) or [[]]
    return [rest + first, *others]


def _settle(tx: Transaction, engine: Engine, verdicts: Sequence[Verdict]) -> None:
    """Hand each kind its outcomes, the engine's own verdicts among them, as one list."""
    by_kind: dict[str, list[Settlement]] = defaultdict(list)
    for verdict in verdicts:
        # A job of a kind unknown here can only be put back, and has nothing to settle.
        if verdict.outcome is not None and verdict.job.kind in engine.kinds:
            by_kind[verdict.job.kind].append(Settlement(verdict.job, verdict.outcome))
            if isinstance(verdict.change, Ending) and verdict.change.outcome == "crashed":
                append_event(tx, "job.quarantined", subject=verdict.job.id, data={"kind": verdict.job.kind})
                if engine.on_quarantine is not None:
                    engine.on_quarantine(tx, verdict.job)
    for name in sorted(by_kind):
        settle = engine.kinds[name].settle
        if settle is not None:
            settle(tx, engine, by_kind[name])


def _hold_lanes(tx: Transaction, verdicts: Sequence[Verdict]) -> None:
    """Hold each lane once, for the longest wait asked for; in one order everywhere, so that no two deadlock."""
    waits: dict[str, float] = {}
    slowed: set[str] = set()
    for verdict in verdicts:
        seconds, lane = verdict.holds_lane, verdict.job.lane
        if seconds is not None:
            waits[lane] = max(seconds, waits.get(lane, 0.0))
            slowed |= {lane} if verdict.slows_lane else set()
    for lane in sorted(waits):
        hold_lane(tx, lane, waits[lane], slow=lane in slowed)
