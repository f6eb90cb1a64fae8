"""Faults of providers, and what they do to a task: F36–F50."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from longtake.capabilities.generation.tasks import cancel_task
from longtake.engine.lane_store import all_lanes, pause_lane, resume_lane
from longtake.services.provider_calls import end_trouble
from tests.engine.stage import finish
from tests.generation.studio import CREDITS, USER
from tests.generation.test_life_of_a_task import everything_adds_up

if TYPE_CHECKING:
    from longtake import Transaction
    from tests.generation.studio import Studio


async def lanes(studio: Studio) -> dict[str, Any]:
    return {view.lane.name: view for view in await studio.database.read(all_lanes)}


@pytest.mark.parametrize("route", ["submit", "query"])
async def test_provider_errors_only_delay_the_task(studio: Studio, route: str) -> None:
    """F36: a provider answers 5xx."""
    rule = studio.sandbox.faults("status", status=503, route=route, times=3)
    task_id = await studio.submit()
    task, seen = await studio.task(task_id), set()
    for _ in range(8):
        await studio.step()
        task = await studio.task(task_id)
        seen.add((task.trouble or {}).get("code"))
        if task.status == "completed":
            break
        studio.clock.advance(61)
    assert task.status == "completed"
    assert studio.sandbox.applied(rule) == 3
    assert "PROVIDER_UNAVAILABLE" in seen
    assert len([call for call in studio.sandbox.calls(route="submit") if call["status"] == 200]) == 1
    await everything_adds_up(studio)


async def test_many_failures_in_a_row_hold_back_the_lane(studio: Studio) -> None:
    """F36: a provider answers 5xx."""
    studio.sandbox.faults("status", status=500, route="query")
    task_ids = [await studio.submit(f"fox {number}") for number in range(6)]
    await studio.step()
    studio.clock.advance(40)
    await studio.step()
    assert ((await lanes(studio))["kie.query"].state.blocked or 0) > 10
    assert {(await studio.task(one)).status for one in task_ids} == {"running"}


@pytest.mark.parametrize(("retry_after", "least", "most"), [(7, 6.5, 7.5), ("1e99", 0, 3_600), (999_999, 0, 3_600)])
async def test_a_429_is_obeyed_up_to_a_limit(studio: Studio, retry_after: Any, least: float, most: float) -> None:
    """F37: 429 with Retry-After."""
    studio.sandbox.faults("status", status=429, retry_after=retry_after, route="submit", times=1)
    task_id = await studio.submit()
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, (task.trouble or {})["code"]) == ("pending", "PROVIDER_BUSY")
    blocked = (await lanes(studio))["kie.submit"].state.blocked
    assert blocked is not None
    assert least <= blocked <= most
    studio.clock.advance(blocked + 1)
    assert (await studio.follow(task_id)).status == "completed"


@pytest.mark.parametrize("model", ["nano-banana", "veo3-fast", "veo-3.1-fast"])
async def test_a_submit_without_an_answer_is_never_sent_twice(studio: Studio, model: str) -> None:
    """F38: a submit times out."""
    studio.sandbox.faults("accept_then_drop", route="submit", times=1)
    task_id = await studio.submit(model=model)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.needs_review) == ("pending", True)
    assert ("SUBMIT_UNKNOWN", "open") in await studio.alerts()
    assert await studio.facts(task_id) == ["intended", "unknown"]
    assert len(studio.sandbox.calls(route="submit")) == 1

    deadline = studio.generation.offered.models[model].deadline
    studio.clock.advance(deadline - 5)
    await studio.step()
    assert (await studio.task(task_id)).status == "pending"
    studio.clock.advance(30)
    await studio.step()
    ended = await studio.task(task_id)
    assert (ended.status, ended.fail_code, ended.needs_review) == ("failed", "SUBMIT_UNKNOWN", False)
    assert await studio.balance() == (CREDITS, 0)
    assert len(studio.sandbox.calls(route="submit")) == 1
    await everything_adds_up(studio)


async def test_a_submit_without_an_answer_is_repeated_if_the_provider_allows_it(studio: Studio) -> None:
    """F38: a submit times out."""
    studio.sandbox.faults("accept_then_drop", route="submit", times=1)
    task = await studio.follow(await studio.submit(model="gemini-flash-image"))
    assert task.status == "completed"
    assert len(studio.sandbox.calls(route="submit")) == 2


async def test_a_submit_is_not_repeated_after_its_worker_died(studio: Studio) -> None:
    """F3: killed after the provider accepted, before its id is saved."""
    task_id = await studio.submit()
    [job] = [job for job in await studio.claim() if job.kind == "generation.submit"]
    # It sends, the provider accepts, and nothing of that is written but the intent.
    await studio.engine.kinds[job.kind].handler(job)
    await erase_answers(studio, task_id)
    await give_back(studio, job.id)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.needs_review) == ("pending", True)
    assert len(studio.sandbox.calls(route="submit")) == 1


async def test_a_written_answer_is_used_after_its_worker_died(studio: Studio) -> None:
    """F3: killed after the provider accepted, before its id is saved."""
    task_id = await studio.submit()
    [job] = [job for job in await studio.claim() if job.kind == "generation.submit"]
    await studio.engine.kinds[job.kind].handler(job)
    assert await studio.facts(task_id) == ["intended", "accepted"]
    await give_back(studio, job.id)
    assert (await studio.follow(task_id)).status == "completed"
    assert len(studio.sandbox.calls(route="submit")) == 1


async def give_back(studio: Studio, job_id: str) -> None:
    """Do what a rescue does: the job waits again, and whoever ran it has no lease any more."""

    def write(tx: Transaction) -> None:
        tx.execute(text("UPDATE jobs SET state = 'ready', lease_token = NULL WHERE id = :id"), {"id": job_id})

    await studio.database.run(write)


async def erase_answers(studio: Studio, task_id: str) -> None:
    """Go back to the moment after sending: what was answered is not on record."""

    def write(tx: Transaction) -> None:
        if tx.dialect == "sqlite":
            tx.execute(text("DROP TRIGGER submissions_no_delete"))
        else:
            tx.execute(text("ALTER TABLE submissions DISABLE TRIGGER submissions_no_delete"))
        tx.execute(text("DELETE FROM submissions WHERE fact = 'accepted' AND task_id = :id"), {"id": task_id})

    await studio.database.run(write)


async def test_an_ended_task_is_not_polled_again(studio: Studio) -> None:
    """F42: an ended task runs again."""
    task_id = await studio.submit()
    await studio.follow(task_id)
    await studio.step()
    asked = len(studio.sandbox.calls(route="query"))
    studio.sandbox.faults("backwards", route="query")
    studio.clock.advance(3_600)
    await studio.step()
    await studio.step()
    assert len(studio.sandbox.calls(route="query")) == asked
    assert (await studio.task(task_id)).status == "completed"


async def test_a_task_that_runs_forever_ends_at_its_deadline_after_one_last_poll(studio: Studio) -> None:
    """F43: a task that runs forever."""
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    started = await studio.task(task_id)
    assert (started.deadline_at - (started.started_at or started.created_at)).total_seconds() == 600
    studio.clock.advance(601)
    # Only the sweep sees the deadline; the poll that it hurries is the last look.
    await studio.step()
    studio.clock.advance(15)
    await studio.step()
    studio.clock.advance(16)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.fail_code) == ("failed", "TIMEOUT")
    assert task.last_polled_at is not None
    assert task.last_polled_at >= task.deadline_at
    assert await studio.balance() == (CREDITS, 0)
    assert "generation.poll" not in await studio.jobs()
    await everything_adds_up(studio)


async def test_a_task_ends_at_its_deadline_even_if_the_provider_is_down(studio: Studio) -> None:
    """F43: a task that runs forever."""
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    studio.sandbox.faults("status", status=401, route="query")
    studio.clock.advance(40)
    await studio.step()
    assert (await lanes(studio))["kie.query"].paused
    studio.clock.advance(600 + 130)
    await studio.step()
    await studio.step()
    assert (await studio.task(task_id)).fail_code == "TIMEOUT"


async def test_waiting_too_long_for_ones_turn_ends_as_well(studio: Studio) -> None:
    studio.sandbox.faults("status", status=429, retry_after=3_000, route="submit")
    task_id = await studio.submit()
    await studio.step()
    studio.clock.advance(3_601)
    await studio.step()
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.fail_code) == ("failed", "TIMEOUT")
    assert await studio.balance() == (CREDITS, 0)


async def test_one_remote_id_for_two_tasks_is_refused(studio: Studio) -> None:
    """F45: one remote id for two tasks."""
    first = await studio.submit("first fox")
    await studio.step()
    studio.sandbox.faults("duplicate_id", route="submit", times=1)
    second = await studio.submit("second fox")
    await studio.step()
    task = await studio.task(second)
    assert (task.status, task.fail_code) == ("failed", "PROVIDER_ID_REUSED")
    assert ("PROVIDER_ID_REUSED", "open") in await studio.alerts()
    assert (await studio.follow(first)).status == "completed"
    await everything_adds_up(studio)


async def test_an_unknown_state_keeps_the_task_and_raises_an_alert(studio: Studio) -> None:
    """F47: an unknown state."""
    studio.sandbox.faults("unknown_state", value="pondering", route="query", times=2)
    task_id = await studio.submit()
    await studio.step()
    studio.clock.advance(40)
    await studio.step()
    assert (await studio.task(task_id)).status == "running"
    assert ("PROVIDER_STATE_UNKNOWN", "open") in await studio.alerts()
    assert (await studio.follow(task_id)).status == "completed"


async def test_a_revoked_key_pauses_only_its_own_lanes(studio: Studio) -> None:
    """F48: a key is revoked while tasks run."""
    task_id = await studio.submit()
    await studio.step()
    studio.sandbox.faults("status", status=401, provider="kie", times=1)
    studio.clock.advance(40)
    await studio.step()
    paused = {name for name, view in (await lanes(studio)).items() if view.paused}
    assert paused == {"kie.submit", "kie.query"}
    assert ("PROVIDER_UNAUTHORIZED", "open") in await studio.alerts()
    assert (await studio.task(task_id)).status == "running"
    other = await studio.follow(await studio.submit(model="gemini-flash-image"))
    assert other.status == "completed"


async def test_a_result_after_cancel_changes_nothing(studio: Studio) -> None:
    """F49: a result after cancel."""
    task_id = await studio.submit()
    await studio.step()
    studio.clock.advance(40)
    [poll] = [job for job in await studio.claim() if job.kind == "generation.poll"]
    outcome = await studio.engine.kinds[poll.kind].handler(poll)
    await studio.database.run(cancel_task, USER, task_id)
    assert not await studio.database.run(finish, studio.engine, poll, outcome, studio.worker)
    assert (await studio.task(task_id)).status == "cancelled"
    assert await studio.balance() == (CREDITS, 0)
    assert await studio.sql("SELECT count(*) FROM assets") == [(0,)]
    await everything_adds_up(studio)


async def test_a_task_the_provider_does_not_know_is_asked_about_twice_and_failed(studio: Studio) -> None:
    task_id = await studio.submit("a fox [never]")
    await studio.step()
    studio.sandbox.faults("status", status=404, code=404, route="query")
    studio.clock.advance(40)
    await studio.step()
    assert (await studio.task(task_id)).status == "running"
    studio.clock.advance(6)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, task.fail_code) == ("failed", "TASK_NOT_FOUND")
    assert await studio.balance() == (CREDITS, 0)


async def test_as_many_as_the_provider_runs_at_once_and_no_more(studio: Studio) -> None:
    provider = studio.context.providers["kie"]
    object.__setattr__(provider, "running_limit", 2)
    task_ids = [await studio.submit(f"fox {number} [never]") for number in range(3)]
    await studio.step()
    waiting = [one for one in task_ids if (await studio.task(one)).status == "pending"]
    assert len(waiting) == 1
    assert ((await studio.task(waiting[0])).trouble or {})["code"] == "PROVIDER_FULL"
    assert len(studio.sandbox.calls(route="submit")) == 2


async def test_a_new_key_resumes_the_paused_lanes_and_resolves_the_alert(studio: Studio) -> None:
    """F48: a key is revoked while tasks run."""
    task_id = await studio.submit()
    studio.sandbox.faults("status", status=401, provider="kie", times=1)
    await studio.step()
    assert (await lanes(studio))["kie.submit"].paused
    await studio.database.run(pause_lane, "gemini.query", "by an operator")
    await studio.database.run(studio.application.vault.put, "gemini_api_key", "another-key")
    await studio.application.keys.refresh()
    assert {name for name, view in (await lanes(studio)).items() if view.paused} == {"gemini.query"}
    assert ("PROVIDER_UNAUTHORIZED", "resolved") in await studio.alerts()
    studio.clock.advance(61)
    assert (await studio.follow(task_id)).status == "completed"


async def test_a_lane_that_an_operator_paused_stays_paused_when_a_key_is_refused(studio: Studio) -> None:
    """F48: a key is revoked while tasks run."""
    await studio.submit()
    [job] = await studio.claim()
    await studio.database.run(pause_lane, "kie.submit", "by an operator")
    studio.sandbox.faults("status", status=401, provider="kie", times=1)
    await studio.run(job)
    paused = {name: view.paused_reason for name, view in (await lanes(studio)).items() if view.paused}
    assert paused == {"kie.submit": "by an operator", "kie.query": "PROVIDER_UNAUTHORIZED"}
    # Nobody is told to lift what an operator has reasons for.
    [(message,)] = await studio.sql("SELECT message FROM alerts WHERE code = 'PROVIDER_UNAUTHORIZED'")
    assert "`longtake lanes resume kie.query`" in message
    await studio.database.run(studio.application.vault.put, "kie_api_key", "another-key")
    await studio.application.keys.refresh()
    assert {name for name, view in (await lanes(studio)).items() if view.paused} == {"kie.submit"}


async def test_a_process_without_a_key_waits_and_pauses_nothing_for_the_others(studio: Studio) -> None:
    task_id = await studio.submit()
    object.__setattr__(
        studio.application.keys, "settings", studio.settings.model_copy(update={"kie_api_key": SecretStr("")})
    )
    await studio.step()
    assert await studio.facts(task_id) == []
    assert not (await lanes(studio))["kie.submit"].paused
    assert ((await studio.task(task_id)).trouble or {})["code"] == "PROVIDER_NOT_CONFIGURED"


async def test_users_hear_of_trouble_without_our_addresses(studio: Studio) -> None:
    studio.sandbox.faults("status", status=500, body="text", message="at http://inside:1/kie", route="query", times=1)
    task_id = await studio.submit()
    await studio.step()
    studio.clock.advance(40)
    await studio.step()
    shown = (await studio.generation.show(USER, task_id))["trouble"]
    assert shown["code"] == "PROVIDER_UNAVAILABLE"
    assert "http" not in shown["message"]


# -- the end of trouble ----------------------------------------------------------------------------------------------


async def test_the_first_answer_after_an_outage_ends_the_waits_of_all(studio: Studio) -> None:
    """F36: the provider is down and comes back."""
    rule = studio.sandbox.faults("status", status=500, route="query")
    task_ids = [await studio.submit(f"fox {number}") for number in range(4)]
    await studio.step()
    for _ in range(6):
        studio.clock.advance(60)
        await studio.step()
    studio.sandbox.ask("DELETE", f"/_faults/{rule}")

    def hurry_one(tx: Transaction) -> None:
        tx.execute(text("UPDATE lanes SET blocked_until = NULL"))
        first = "(SELECT id FROM jobs WHERE kind = 'generation.poll' ORDER BY id LIMIT 1)"
        tx.execute(text(f"UPDATE jobs SET due_at = longtake_now() WHERE id = {first}"))

    await studio.database.run(hurry_one)
    assert (await studio.step()).count("generation.poll") == 1
    assert (await studio.step()).count("generation.poll") == 3
    assert {(await studio.task(one)).status for one in task_ids} == {"completed"}
    await everything_adds_up(studio)


async def test_an_account_that_was_filled_up_goes_on_at_once_and_its_alert_is_resolved(studio: Studio) -> None:
    studio.sandbox.faults("status", code=402, route="submit", times=2)
    task_ids = [await studio.submit(f"fox {number}") for number in range(2)]
    await studio.step()
    assert (await lanes(studio))["kie.submit"].paused
    assert ("PROVIDER_OUT_OF_CREDITS", "open") in await studio.alerts()
    await studio.database.run(resume_lane, "kie.submit")
    await studio.step()
    assert {(await studio.task(one)).status for one in task_ids} == {"running"}
    assert ("PROVIDER_OUT_OF_CREDITS", "resolved") in await studio.alerts()


async def test_a_refused_query_says_nothing_about_the_task(studio: Studio) -> None:
    """The provider works on it and charges it: it is asked again."""
    studio.sandbox.faults("status", code=505, route="query", times=1)
    task_id = await studio.submit()
    await studio.step()
    studio.clock.advance(40)
    await studio.step()
    task = await studio.task(task_id)
    assert (task.status, (task.trouble or {})["code"]) == ("running", "PROVIDER_ERROR")
    studio.clock.advance(60)
    await studio.step()
    assert (await studio.task(task_id)).status == "completed"
    await everything_adds_up(studio)


async def test_an_answer_on_its_way_resolves_no_alert_of_a_lane_that_was_paused_meanwhile(studio: Studio) -> None:
    studio.sandbox.faults("status", code=402, route="submit", times=1)
    await studio.submit("a fox that is refused")
    await studio.step()
    assert (await lanes(studio))["kie.submit"].paused
    ended = await studio.database.run(end_trouble, "kie", "kie.submit", ["PROVIDER_OUT_OF_CREDITS"])
    assert (ended, (await lanes(studio))["kie.submit"].paused) == (False, True)
    assert ("PROVIDER_OUT_OF_CREDITS", "open") in await studio.alerts()


async def test_a_breaker_blocks_the_lane_and_leaves_its_pace(studio: Studio) -> None:
    studio.sandbox.faults("status", status=500, route="query")
    for number in range(6):
        await studio.submit(f"fox {number}")
    await studio.step()
    studio.clock.advance(40)
    await studio.step()
    state = (await lanes(studio))["kie.query"].state
    assert ((state.blocked or 0) > 10, state.factor()) == (True, 1.0)


@pytest.mark.parametrize("kind", ["generation.submit", "generation.poll", "generation.attach"])
def test_no_wait_is_a_minute_long_while_a_deadline_runs(studio: Studio, kind: str) -> None:
    declared = studio.engine.kinds[kind]
    waits = [declared.retry_delay("UNEXPECTED", number, random.Random(1)) for number in range(1, 100)]
    assert max(waits) < 60
    # As patient as a deadline is long.
    assert sum(waits[: declared.max_attempts]) > 600
