"""The completer: verdicts on their way into the database, kept until they are committed."""

from collections.abc import Callable, Sequence

import structlog

from longtake.db.database import TRANSIENT
from longtake.engine.claimer import LINGER_SECONDS, ClaimTimer
from longtake.engine.engine import Engine
from longtake.engine.outcomes import Retry, Snooze, Verdict, judge, unsettled
from longtake.engine.queue import Claim, PutBack, QueueName
from longtake.redaction import redact_text

log = structlog.get_logger(__name__)

BATCH = 200


class Completer:
    """A worker's verdicts that are not committed yet."""

    def __init__(self, engine: Engine, timer: ClaimTimer, on_written: Callable[[Verdict], None]) -> None:
        self._engine = engine
        self._timer = timer
        #: Hears of every verdict that was written, also where the lease was lost.
        self._on_written = on_written
        #: The worker whose verdicts these are; set when it registers.
        self.worker = ""
        self._waiting: list[Verdict] = []
        self._under_way: dict[str, Verdict] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting or self._under_way)

    def ids(self) -> set[str]:
        return {verdict.job.id for verdict in self._waiting} | set(self._under_way)

    def add(self, verdict: Verdict) -> None:
        """Commit soon; a snooze may wait for others, so that many are one transaction."""
        self._waiting.append(verdict)
        lingers = isinstance(verdict.outcome, Snooze) and verdict.outcome.seconds >= 1.0
        self._timer.flush_within(LINGER_SECONDS if lingers else 0.0)

    def take(self) -> list[Verdict]:
        """Return a batch to commit; it counts as under way until exchange has ended."""
        batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        if not self._waiting:
            self._timer.flushed()
        self._under_way.update((verdict.job.id, verdict) for verdict in batch)
        if 0.0 in _delays(batch):
            # For the very claim that goes along with it.
            self._timer.expect(0.0)
        return batch

    def forget(self) -> None:
        """Drop everything: the leases are lost, so nothing of it could be written."""
        self._waiting.clear()

    async def exchange(
        self, verdicts: list[Verdict], queues: Sequence[QueueName], wanted: int, *, look: bool = False
    ) -> Claim:
        """Commit the batch, in as many transactions as it needs, and claim in the last of them."""
        *first, last = self._engine.split(verdicts)
        try:
            for part in first:
                await self._exchange(part, (), 0, look=False)
            claim = await self._exchange(last, queues, wanted, look=look)
        except TRANSIENT:
            # Nothing was written, or we cannot know: the fence makes doing it again harmless.
            self._waiting[:0] = [verdict for verdict in verdicts if verdict.job.id in self._under_way]
            self._timer.flush_within(0.0)
            raise
        finally:
            for verdict in verdicts:
                self._under_way.pop(verdict.job.id, None)
        # Not before it was committed: a claim in between would not see it, and would wait again.
        missed = [delay for delay in _delays(verdicts) if delay > 0 or not wanted]
        if missed:
            self._timer.expect(min(missed))
        self._timer.free_lanes({verdict.job.lane for verdict in verdicts})
        return claim

    async def _exchange(
        self, part: Sequence[Verdict], queues: Sequence[QueueName], wanted: int, *, look: bool
    ) -> Claim:
        """Commit a part and claim; if an effect cannot be written, commit the verdicts one by one."""
        try:
            claim = await self._engine.database.run(self._engine.exchange, part, queues, self.worker, wanted, look)
            for verdict in part:
                self._on_written(verdict)
        except TRANSIENT:
            raise
        except Exception:
            if not part:
                raise
            log.warning("a batch could not be settled; settling one by one", action="settle", exc_info=True)
            for verdict in part:
                await self._settle_alone(verdict)
            claim = Claim()
        for verdict in part:
            self._under_way.pop(verdict.job.id, None)
        return claim

    async def _settle_alone(self, verdict: Verdict) -> None:
        """Settle one verdict; when its effects cannot be written, try again later by its kind's policy."""
        run, finish = self._engine.database.run, self._engine.finish
        job, worker = verdict.job, self.worker
        try:
            await run(finish, [verdict])
            self._on_written(verdict)
        except TRANSIENT:
            self.add(verdict)
        except Exception as error:
            log.exception("the outcome could not be settled", action="settle", job_id=job.id, job_kind=job.kind)
            text = redact_text(f"{type(error).__name__}: {error}")
            kind = self._engine.kinds[job.kind]
            again = judge(kind, job, Retry("SETTLE_FAILED", text), worker, self._engine.random)
            try:
                await run(finish, [again])
                self._on_written(again)
            except TRANSIENT:
                self.add(verdict)
            except Exception:
                log.exception("the failure could not be settled either", action="settle", job_id=job.id)
                self.add(unsettled(job, worker, text))


def _delays(verdicts: Sequence[Verdict]) -> list[float]:
    """Return after how long those are due again that are put back."""
    return [verdict.change.delay for verdict in verdicts if isinstance(verdict.change, PutBack)]
