"""Where faults are tried: a database, the children that work on it, and what they left as evidence."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy.dialects.postgresql
import sqlalchemy.dialects.sqlite
from sqlalchemy.schema import CreateTable

from longtake.clock import new_id
from proofs.faults.child_worker import effects, main
from proofs.faults.holding import Plan
from tests.outside import plain_sql
from tests.wait import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Children are forked from a process that has imported everything, so that each starts in milliseconds.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["proofs.faults.child_worker"])

Line = dict[str, Any]


class Child:
    """A worker process, and what may be done to it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._process = _processes.Process(target=main, args=(plan,), daemon=True)
        self._process.start()
        self.id = self._process.pid or 0
        self.died_at: float | None = None

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        """Kill it outright and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self.gone()
        self.died_at = time.monotonic()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to stop."""
        self._signal(signal.SIGTERM)

    def gone(self) -> int:
        """Wait until the process has ended; return its exit status, negative for a signal."""
        self._process.join(PATIENCE_SECONDS)
        if self._process.exitcode is None:
            raise AssertionError(f"The child did not end within {PATIENCE_SECONDS:g} s.")
        return self._process.exitcode

    def _signal(self, number: int) -> None:
        if self._process.is_alive():
            os.kill(self.id, number)


class Lab:
    """Starts children on one database, and reads what became of its jobs without going through Longtake."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.plan = Plan(url, folder)
        self.children: list[Child] = []
        self.is_sqlite = url.startswith("sqlite")
        (folder / "evidence").touch()
        dialect = sqlalchemy.dialects.sqlite if self.is_sqlite else sqlalchemy.dialects.postgresql
        self.sql(str(CreateTable(effects).compile(dialect=dialect.dialect())))

    # -- children ------------------------------------------------------------------------------------------------

    def start(self, *, ready: bool = True, **changes: Any) -> Child:
        """Start a worker, and wait until it works."""
        child = Child(replace(self.plan, **changes))
        self.children.append(child)
        if ready:
            self.wait_for("ready", process=child.id)
        return child

    def end(self) -> None:
        """Kill what is left."""
        for child in self.children:
            child.kill()

    def deaths(self) -> dict[int, float]:
        """Return when each killed child was gone for certain."""
        return {child.id: child.died_at for child in self.children if child.died_at is not None}

    def let(self, name: str) -> None:
        """Let go on whatever waits for this file."""
        (self.folder / name).touch()

    # -- evidence ------------------------------------------------------------------------------------------------

    def evidence(self, what: str | None = None, **facts: Any) -> list[Line]:
        """Return the lines with these facts, in the order in which they happened."""
        # The last line may be still on its way.
        text, _newline, _rest = (self.folder / "evidence").read_bytes().rpartition(b"\n")
        lines = [orjson.loads(line) for line in text.splitlines()]
        wanted = facts if what is None else {"what": what, **facts}
        return [line for line in lines if wanted.items() <= line.items()]

    def wait_for(self, what: str, *, count: int = 1, **facts: Any) -> list[Line]:
        """Wait for as many lines with these facts."""

        def look() -> tuple[list[Line], list[Line]]:
            lines = self.evidence()
            return self.evidence(what, **facts), lines[-20:]

        found, _last = wait_for(look, f"{count} × {what} {facts}", lambda seen: len(seen[0]) >= count)
        return list(found)

    # -- the database, from outside ------------------------------------------------------------------------------

    def sql(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement in a transaction of its own; parameters are written as ``?``."""
        return plain_sql(self.url, statement, parameters)

    def enqueue(
        self, count: int = 1, *, kind: str = "task", lane: str = "default", crashes: int = 0, **args: Any
    ) -> list[str]:
        """Write jobs as an outside program would; return their ids."""
        ids = [new_id() for _ in range(count)]
        text = orjson.dumps(args).decode()
        rows = [(job_id, kind, lane, crashes, text) for job_id in ids]
        places = ", ".join(["(?, ?, ?, ?, ?, 50)"] * count)
        parameters = tuple(value for row in rows for value in row)
        self.sql(f"INSERT INTO jobs (id, kind, lane, crashes, args, max_attempts) VALUES {places}", parameters)
        return ids

    def job(self, job_id: str) -> Line:
        """Return a job, live or ended."""
        columns = ("state", "attempt", "crashes", "worker", "error")
        for table in ("jobs", "jobs_ended"):
            rows = self.sql(f"SELECT {', '.join(columns)} FROM {table} WHERE id = ?", (job_id,))
            if rows:
                job = dict(zip(columns, rows[0], strict=True))
                if isinstance(job["error"], str):
                    job["error"] = orjson.loads(job["error"])
                return job
        raise AssertionError(f"The job {job_id} is lost.")

    def live(self) -> int:
        """Count the jobs that wait or run."""
        return int(self.sql("SELECT count(*) FROM jobs")[0][0])

    def drained(self) -> None:
        """Wait until no job is left."""
        wait_for(self.live, "all jobs have ended", lambda left: left == 0)

    def attempts(self, job_id: str) -> list[str]:
        """Return how the job's attempts ended, in order."""
        rows = self.sql("SELECT outcome FROM job_attempts WHERE job_id = ? ORDER BY ended_at", (job_id,))
        return [row[0] for row in rows]

    # -- what must hold after any fault --------------------------------------------------------------------------

    def quarantined(self) -> list[str]:
        """Return the jobs that were ended because their workers died: each of them three times, the last time alone."""
        rows = self.sql("SELECT id FROM jobs_ended WHERE state = 'failed' AND crashes = 2")
        ids = [str(row[0]) for row in rows]
        for job_id in ids:
            assert self.job(job_id)["error"]["code"] == "CRASHED"
            assert self.attempts(job_id).count("crashed") >= 3
        return ids

    def check(self, ids: Sequence[str], *, quarantined: Sequence[str] = ()) -> None:
        """None of the jobs is lost, each one's effect is there exactly once, and none was written without a run."""
        ended = {str(job_id): state for job_id, state in self.sql("SELECT id, state FROM jobs_ended")}
        wanted = {job_id: "failed" if job_id in quarantined else "done" for job_id in ids}
        assert {job_id: ended.get(job_id, "lost") for job_id in ids} == wanted
        done = {job_id for job_id, state in ended.items() if state == "done"}
        assert [row[0] for row in self.sql("SELECT job_id FROM effects ORDER BY job_id")] == sorted(done)
        assert done <= {line["job"] for line in self.evidence("end")}
        # A second effect would have been refused, and its job would have tried again.
        doubled = "SELECT job_id FROM job_attempts WHERE CAST(error AS text) LIKE ?"
        assert self.sql(doubled, ("%SETTLE_FAILED%",)) == []
        # Every follow-up was enqueued with its parent's end: never twice, and never without.
        followed = "SELECT subject FROM jobs_ended WHERE subject IS NOT NULL GROUP BY subject HAVING count(*) > 1"
        assert self.sql(followed) == []
