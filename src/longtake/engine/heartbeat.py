"""The heartbeat: a thread of its own, so that a blocked event loop does not cost the worker its leases."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog

from longtake.db.retry import TRANSIENT
from longtake.engine.leases import Pulse, beat
from longtake.engine.verdicts import judge_crash, unsettled
from longtake.errors import LongtakeError
from longtake.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from longtake.engine.engine import Engine
    from longtake.engine.executor import RunningJob
    from longtake.engine.jobs import Job

log = structlog.get_logger(__name__)

#: How long past its time limit a handler may ignore that it was cancelled.
WEDGED_GRACE_SECONDS = 10.0
#: After a beat that failed, the next one comes sooner.
RETRY_SECONDS = 1.0


class Heartbeat:
    """Beats until stopped, and takes jobs away from handlers that no longer react."""

    def __init__(
        self,
        engine: Engine,
        lease_seconds: float,
        interval: float,
        in_hand: Callable[[], Iterable[RunningJob]],
        on_pulse: Callable[[str, Pulse], None],
    ) -> None:
        self._engine = engine
        self._lease = lease_seconds
        self._interval = interval
        self._in_hand = in_hand
        self._on_pulse = on_pulse
        self._worker = ""
        self._stop = threading.Event()
        self._now = threading.Event()
        self._thread = threading.Thread(target=self._beat_forever, name="longtake-heartbeat", daemon=True)

    def start(self, worker: str) -> None:
        """Begin to beat for a worker that is registered."""
        self._worker = worker
        self._thread.start()

    def follow(self, worker: str) -> None:
        """Beat for the worker's new identity after the old one was buried."""
        self._worker = worker

    def beat_soon(self) -> None:
        """Beat at once: one of our jobs may have been cancelled."""
        self._now.set()

    def stop(self) -> None:
        """Stop, and wait for a beat under way."""
        self._stop.set()
        self._now.set()
        self._thread.join()

    def _beat_forever(self) -> None:
        pause = self._interval
        while True:
            self._now.wait(pause)
            self._now.clear()
            if self._stop.is_set():
                return
            pause = self._interval if self._beat_once() else min(RETRY_SECONDS, self._interval)

    def _beat_once(self) -> bool:
        worker = self._worker
        try:
            self._abandon_wedged(worker)
            pulse = self._engine.database.run_blocking(beat, worker, self._lease)
        except LongtakeError as error:
            log.warning("heartbeat failed", action="beat", code=error.code, error=error.message)
            return False
        except Exception:
            log.exception("heartbeat failed", action="beat")
            return False
        self._on_pulse(worker, pulse)
        return True

    def _abandon_wedged(self, worker: str) -> None:
        now = self._engine.clock.monotonic()
        for one in self._in_hand():
            started = one.started_at
            if started is None or now - started < one.kind.time_limit + WEDGED_GRACE_SECONDS:
                continue
            if self._take_away(one.job, worker):
                log.error(
                    "handler wedged, job taken from it", action="abandon", job_id=one.job.id, job_kind=one.job.kind
                )

    def _take_away(self, job: Job, worker: str) -> bool:
        run, finish = self._engine.database.run_blocking, self._engine.finish
        try:
            return bool(run(finish, [judge_crash(job, worker)]))
        except TRANSIENT:
            raise
        except Exception as error:
            # A settle that fails must not cost the worker its heartbeat, and with it all other jobs.
            log.exception("a wedged job could not be settled", action="abandon", job_id=job.id, job_kind=job.kind)
            return bool(run(finish, [unsettled(job, worker, redact_text(f"{type(error).__name__}: {error}"))]))
