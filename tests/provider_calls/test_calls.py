"""The one way to call a provider: the permit first, then the call, then what follows from its answer."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from longtake import Done, Fail, Lane, Outcome, Retry, Snooze
from longtake.adapters.providers.errors import (
    ProviderBusy,
    ProviderError,
    ProviderOutOfCredits,
    ProviderQuotaSpent,
    ProviderRefused,
    ProviderUnauthorized,
    ProviderUnavailable,
    SubmitUnknown,
)
from longtake.db.dialects import NOW
from longtake.db.errors import DatabaseUnavailable
from longtake.engine.tables import jobs
from longtake.services.alerts import Severity, list_alerts, raise_alert
from longtake.services.provider_calls import (
    BACK_OFF,
    BREAKER_LIMIT,
    PAUSED_SECONDS,
    Breaker,
    Trouble,
    ask_provider,
)
from tests.engine.stage import KIND, Stage, claim, finish, hire

if TYPE_CHECKING:
    from longtake import Database, Job, Transaction


class Remote:
    """A provider as lanes know it, and a call whose answers a test gives."""

    name = "remote"
    submit_lane = Lane("remote.submit")
    query_lane = Lane("remote.query")

    def __init__(self, *answers: Any) -> None:
        self.configured = True
        self.calls = 0
        self._answers = list(answers)

    async def call(self) -> Any:
        self.calls += 1
        answer = self._answers.pop(0) if self._answers else "an answer"
        if isinstance(answer, ProviderError):
            raise answer
        return answer


@pytest.fixture
async def job(stopped_database: Database) -> Job:
    stage = Stage(stopped_database, permit="call")
    await stage.start()
    await stage.enqueue()
    worker = await stopped_database.run(hire)
    [claimed] = await stopped_database.run(claim, stage.engine, worker)
    return claimed


async def ask(job: Job, remote: Remote, breaker: Breaker | None = None, **options: Any) -> Any:
    return await ask_provider(job, remote, remote.call, breaker=breaker or Breaker(), **options)


async def test_the_call_is_made_at_the_time_of_the_permit(job: Job) -> None:
    order: list[str] = []

    async def permit() -> None:
        order.append("permit")

    async def call() -> str:
        order.append("call")
        return "an answer"

    job.permit_waiter = permit
    assert await ask_provider(job, Remote(), call, breaker=Breaker()) == "an answer"
    assert order == ["permit", "call"]


async def test_a_job_that_is_too_late_does_not_call(job: Job) -> None:
    async def too_late() -> None:
        raise asyncio.CancelledError

    job.permit_waiter, remote = too_late, Remote()
    with pytest.raises(asyncio.CancelledError):
        await ask(job, remote)
    assert remote.calls == 0


async def test_without_a_key_neither_the_lane_nor_the_provider_is_asked(job: Job) -> None:
    async def permit() -> None:
        raise AssertionError("A permit was spent.")

    job.permit_waiter, remote = permit, Remote()
    remote.configured = False
    outcome = await ask(job, remote)
    assert isinstance(outcome, Snooze)
    assert (outcome.code, outcome.slow_lane, remote.calls) == ("PROVIDER_NOT_CONFIGURED", False, 0)


async def test_the_limit_runs_from_the_permit(job: Job) -> None:
    """A wait for the lane that is longer than the limit harms nothing; a call that is longer is given up."""
    waited = asyncio.Event()

    async def permit() -> None:
        asyncio.get_running_loop().call_later(0.1, waited.set)
        await waited.wait()

    job.permit_waiter = permit
    assert await ask(job, Remote(), limit=0.05) == "an answer"

    async def never() -> None:
        await asyncio.Event().wait()

    outcome = await ask_provider(job, Remote(), never, 0.01, breaker=Breaker())
    assert isinstance(outcome, Snooze)
    assert outcome.code == "PROVIDER_TIMEOUT"


TROUBLE = [
    (ProviderBusy("b", retry_after=7.0), 7.0, None, False),
    (ProviderQuotaSpent("q", reset=9_000.0), 9_000.0, None, True),
    (ProviderUnauthorized("u"), 50.0, "all", True),
    (ProviderOutOfCredits("c"), 50.0, "submit", True),
]


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("error", "seconds", "pause", "alert"), TROUBLE)
async def test_trouble_with_the_account_spends_no_attempt(
    job: Job, error: ProviderError, seconds: float, pause: str | None, alert: bool, counted: bool
) -> None:
    outcome = await ask(job, Remote(error), counted=counted)
    assert isinstance(outcome, Snooze)
    trouble: Trouble = outcome.data
    assert (outcome.seconds, outcome.code, trouble.pause, trouble.alert) == (seconds, error.code, pause, alert)


@pytest.mark.parametrize("error", [ProviderUnavailable("down"), SubmitUnknown("lost")])
async def test_other_trouble_spends_an_attempt_where_it_may_be_about_the_request(
    job: Job, error: ProviderError
) -> None:
    assert isinstance(await ask(job, Remote(error)), Snooze)
    assert isinstance(await ask(job, Remote(error), counted=True), Retry)


async def test_a_refusal_fails_the_job_and_keeps_the_providers_reason(job: Job) -> None:
    refused = ProviderRefused("No.", fail_code="SAFETY")
    assert await ask(job, Remote(refused)) == Fail("PROVIDER_REFUSED", "No.", data=refused)


async def test_an_outcome_of_the_call_itself_is_no_answer_of_the_provider(job: Job) -> None:
    breaker = Breaker({job.lane: 3})
    outcome: Outcome = Done()
    assert await ask(job, Remote(outcome), breaker) is outcome
    assert breaker.failures == {job.lane: 3}
    await ask(job, Remote(), breaker)
    assert breaker.failures == {}


async def test_failures_are_counted_by_lane(job: Job) -> None:
    breaker, down = Breaker({"another": 4}), [ProviderUnavailable("down") for _ in range(BREAKER_LIMIT)]
    remote = Remote(*down)
    outcomes = [await ask(job, remote, breaker) for _ in down]
    assert [outcome.block_lane for outcome in outcomes] == [False] * (BREAKER_LIMIT - 1) + [True]
    assert not any(outcome.slow_lane for outcome in outcomes), "nobody said that we are too fast"
    assert breaker.failures == {"another": 4, job.lane: BREAKER_LIMIT}


# -- the end of trouble ----------------------------------------------------------------------------------------------


async def wait_for_lane(job: Job, seconds: float) -> str:
    """Leave another job in the lane that waits because of it."""
    engine, run = job.engine, job.engine.database.run
    worker = await run(hire)

    def write(tx: Transaction) -> str:
        return engine.enqueue(tx, KIND).id

    job_id = await run(write)
    [other] = [one for one in await run(claim, engine, worker) if one.id == job_id]
    assert await run(finish, engine, other, Snooze(seconds, code="DOWN", lane_trouble=True), worker)
    return job_id


async def is_due(job: Job, job_id: str) -> bool:
    def read(tx: Transaction) -> bool:
        return bool(tx.execute(select(jobs.c.due_at <= NOW).where(jobs.c.id == job_id)).scalar_one())

    return await job.engine.database.read(read)


async def test_the_first_answer_after_trouble_wakes_the_others_and_resolves_the_alert(job: Job) -> None:
    run, breaker = job.engine.database.run, Breaker()
    other = await wait_for_lane(job, 40.0)
    await run(raise_alert, Severity.CRITICAL, "PROVIDER_OUT_OF_CREDITS", "empty", "remote")
    await run(raise_alert, Severity.CRITICAL, "PROVIDER_QUOTA_SPENT", "spent", "remote")
    await ask(job, Remote(), breaker)
    assert not await is_due(job, other), "there was no trouble in this lane that could be over"
    await ask(job, Remote(ProviderOutOfCredits("empty")), breaker)
    assert not await is_due(job, other)
    await ask(job, Remote(), breaker)
    assert await is_due(job, other)
    found = await job.engine.database.read(list_alerts)
    assert [alert["code"] for alert in found] == ["PROVIDER_QUOTA_SPENT"]


async def test_trouble_that_met_another_process_is_over_for_all(job: Job) -> None:
    """Its job tells of it. Of many such jobs the first is enough."""
    breaker, other = Breaker(), await wait_for_lane(job, 40.0)
    job.memo = {"trouble": 1, "trouble_code": "PROVIDER_UNAVAILABLE"}
    await ask(job, Remote(), breaker)
    assert await is_due(job, other)
    late = await wait_for_lane(job, 40.0)
    await ask(job, Remote(), breaker)
    assert not await is_due(job, late)


async def test_a_database_that_is_away_leaves_it_to_the_next_answer(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    other, breaker, database = await wait_for_lane(job, 40.0), Breaker(), job.engine.database

    async def away(*_arguments: Any) -> None:
        raise DatabaseUnavailable("away")

    await ask(job, Remote(ProviderUnavailable("down")), breaker)
    with monkeypatch.context() as patched:
        patched.setattr(database, "run", away)
        assert await ask(job, Remote(), breaker) == "an answer"
    await ask(job, Remote(), breaker)
    assert await is_due(job, other)


def test_no_wait_between_tries_is_a_minute_long() -> None:
    source = random.Random(1)
    assert all(BACK_OFF.delay(number, source) < 60 for number in range(1, 100))
    assert PAUSED_SECONDS < 60


# -- a call beside the job's own lane --------------------------------------------------------------------------------


async def test_a_call_in_another_lane_needs_a_permit_of_that_lane(job: Job) -> None:
    permitted, asked = [True, False], list[str]()

    async def permit_of(_job: Job, lane: str) -> bool:
        asked.append(lane)
        return permitted.pop(0)

    job.lane_waiter, remote = permit_of, Remote()
    assert await ask(job, remote, lane="remote.query") == "an answer"
    outcome = await ask(job, remote, lane="remote.query")
    assert isinstance(outcome, Snooze)
    assert (outcome.code, remote.calls, asked) == ("PROVIDER_BUSY", 1, ["remote.query"] * 2)


async def test_trouble_in_another_lane_does_not_hold_the_jobs_own(job: Job) -> None:
    breaker = Breaker({job.lane: BREAKER_LIMIT})
    for _ in range(BREAKER_LIMIT):
        outcome = await ask(job, Remote(ProviderUnavailable("down")), breaker, lane="remote.query")
        assert isinstance(outcome, Snooze)
        assert (outcome.block_lane, outcome.slow_lane, outcome.lane_trouble) == (False, False, False)
    assert breaker.failures == {job.lane: BREAKER_LIMIT, "remote.query": BREAKER_LIMIT}
