"""The end of a kill test of generation: what callers were told, what the database says, and what the sandbox saw.

Each check returns what is wrong; nothing is what should be found.
"""

# ruff: noqa: T201 - shown by pytest when the proof fails
from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from longtake import open_database
from longtake.capabilities.generation.tables import TASK_KINDS
from proofs.faults.generation_books import Books
from proofs.faults.generation_files import check_files
from proofs.faults.generation_processes import SECRET
from proofs.faults.generation_story import CREDITS
from tests.credits.stage import audit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proofs.faults.generation_story import Story

#: Provider models whose repeated submit is only paid twice: the provider said that this is acceptable.
REPEATABLE = "gemini_image"
#: What a provider never says. A task that ends with one of these was ended by a mistake of ours.
OWN_CODES = frozenset((
    "CRASHED", "UNEXPECTED", "TIME_LIMIT", "SETTLE_FAILED", "NOT_AN_OUTCOME", "TIMEOUT", "TASK_NOT_FOUND", "NO_RESULT",
    "MEDIA_REFUSED", "PROVIDER_ID_REUSED", "PROVIDER_GONE", "MODEL_GONE",
))  # fmt: skip
LEAST_KILLS = 3
ENDS = {"completed": "capture", "failed": "release", "cancelled": "release"}


def reckon(story: Story) -> list[str]:
    """Compare everything with everything; the processes are stopped meanwhile."""
    command = story.processes.place.run("credits", "audit", "--json")
    findings = [] if command.returncode == 0 else [f"longtake credits audit: {command.stdout}{command.stderr}"]
    story.processes.stop()
    books = Books.read(story.database_url)
    if story.processes.kills < LEAST_KILLS:
        findings.append(f"only {story.processes.kills} kills: that proves nothing")
    findings += [f"stuck: {one}" for one in story.stuck]
    findings += story.processes.complaints
    findings += [f"surprise: {one}" for one in story.callers.surprises]
    for check in (_told, _ends, _messages, _ledger, _events, _jobs, _submits, _callbacks):
        findings += check(story, books)
    findings += check_files(story, books)
    findings += _audit(story)
    findings += _secrets(story)
    _print_summary(story, books)
    return findings


def _told(story: Story, books: Books) -> Iterator[str]:
    """What callers were told is what is there: each wish is one task, and no task is nobody's."""
    for wish in story.wishes:
        if len(wish.told) != 1:
            yield f"wish {wish.number} was told the ids {sorted(wish.told)}"
        elif wish.told_ends - {books.tasks[wish.id].status if wish.id in books.tasks else "lost"}:
            yield f"{wish.id}: told {sorted(wish.told_ends)}, and is {books.tasks.get(wish.id)}"
    told = {task_id for wish in story.wishes for task_id in wish.told}
    yield from (f"{task_id}: accepted and lost" for task_id in sorted(told - set(books.tasks)))
    yield from (f"{task_id}: nobody was told of it" for task_id in sorted(set(books.tasks) - told))


def _ends(story: Story, books: Books) -> Iterator[str]:
    """Each task ended as its wish and its provider would have it, and none by our own mistake."""
    wishes = {wish.id: wish for wish in story.wishes if len(wish.told) == 1}
    for task_id, wish in wishes.items():
        task = books.tasks.get(task_id)
        if task is None:
            continue
        unknown = task.fail_code == "SUBMIT_UNKNOWN" and task_id in story.given_up
        match task.status:
            case "completed":
                good = not wish.is_bad
            case "failed":
                good = unknown or (wish.is_bad and task.fail_code not in OWN_CODES | {"SUBMIT_UNKNOWN", None})
            case "cancelled":
                good = wish.told_cancelled and task.fail_code == "CANCELLED"
            case _:
                good = False
        if not good or task.needs_review:
            yield f"{task_id}: {wish.prompt!r} ended as {task}"


def _messages(_story: Story, books: Books) -> Iterator[str]:
    """A task of a conversation has one question and one answer, and its end is in the answer; others have none."""
    for task_id, task in books.tasks.items():
        wanted = [("assistant", task.status), ("user", "completed")] if task.conversation else []
        if sorted(books.messages.get(task_id, [])) != wanted:
            yield f"{task_id}: {task.status}, with the messages {books.messages.get(task_id)}"
    for conversation, unread in books.unread.items():
        ended = [task for task in books.tasks.values() if task.conversation == conversation]
        worth = sum(task.status in {"completed", "failed"} for task in ended)
        if unread != worth:
            yield f"conversation {conversation}: {unread} unread, {worth} ends"


def _ledger(_story: Story, books: Books) -> Iterator[str]:
    """(a), (d), (e), (f), (i): by arithmetic of this test's own; the program's audit comes beside it."""
    if books.entries_sum != 0:
        yield f"all entries sum to {books.entries_sum}"
    for task_id, task in books.tasks.items():
        wanted = sorted([("hold", task.price), (ENDS.get(task.status, "?"), task.price)])
        if sorted(books.transfers.get(task_id, [])) != wanted:
            yield f"{task_id}: {task.status} at {task.price}, with the transfers {books.transfers.get(task_id)}"
    for user, balance in books.balances.items():
        spent = sum(task.price for task in books.tasks.values() if task.user == user and task.status == "completed")
        if balance != (CREDITS - spent, 0):
            yield f"{user} has (available, held) {balance} after spending {spent} of {CREDITS}"


def _events(_story: Story, books: Books) -> Iterator[str]:
    """Everybody who listens heard of each task's beginning once, and of its end once."""
    for task_id, task in books.tasks.items():
        heard = Counter(books.events.get(task_id, []))
        ends = {name: heard[name] for name in ("task.completed", "task.failed", "task.cancelled") if heard[name]}
        if heard["task.created"] != 1 or ends != {f"task.{task.status}": 1}:
            yield f"{task_id}: {task.status}, with the events {dict(heard)}"


def _jobs(_story: Story, books: Books) -> Iterator[str]:
    """No job of a task was ended because workers died, and no handler or settle made a mistake.

    A copy may be: it is not the task's end, and whoever wants it has it tried again.
    """
    yield from (f"a {kind} ended with {error}" for kind, error in books.failed_jobs if _is_crash_of_task(kind, error))
    for kind, error in books.attempt_errors:
        if any(word in error for word in ("UNEXPECTED", "SETTLE_FAILED", "NOT_AN_OUTCOME")):
            yield f"a try of {kind} ended with {error}"


def _is_crash_of_task(kind: str, error: str) -> bool:
    return "CRASHED" in error and kind in TASK_KINDS


def _submits(story: Story, books: Books) -> Iterator[str]:
    """The provider was never paid twice, nor without our knowing that it might have been."""
    accepted: dict[str, list[dict[str, Any]]] = {}
    for one in story.sandbox.tasks():
        accepted.setdefault(one["prompt"], []).append(one)
    prompts = {task.prompt: task_id for task_id, task in books.tasks.items()}
    yield from (f"nobody asked for {prompt!r}" for prompt in accepted.keys() - prompts.keys())
    for prompt, task_id in prompts.items():
        task, remote = books.tasks[task_id], accepted.get(prompt, [])
        facts = Counter(books.submissions.get(task_id, []))
        once = task.provider != REPEATABLE
        if once and (len(remote) > 1 or facts["intended"] - facts["refused"] > 1 or facts["accepted"] > 1):
            yield f"{task_id}: accepted {len(remote)} times, on record {dict(facts)}"
        if len(remote) > facts["intended"]:
            yield f"{task_id}: accepted {len(remote)} times, intended {facts['intended']} times"
        if task.status == "completed" and not remote:
            yield f"{task_id}: completed, and nobody ever made it"
        if once and task.status == "completed" and task.remote not in {one["id"] for one in remote}:
            yield f"{task_id}: completed with the remote id {task.remote} of another"


def _callbacks(story: Story, books: Books) -> Iterator[str]:
    """A lost submit whose provider called back, and was heard, was found again."""
    heard = {call["prompt"] for call in story.sandbox.calls(route="callback") if call["status"] == 200}
    for task_id, task in books.tasks.items():
        if task.fail_code == "SUBMIT_UNKNOWN" and task.prompt in heard:
            yield f"{task_id}: the provider called back, and it was given up all the same"


def _audit(story: Story) -> Iterator[str]:
    """(a) to (h), as the program itself sees them."""
    database = open_database(story.database_url)
    try:
        yield from (f"audit: {finding}" for finding in database.run_blocking(audit))
    finally:
        database.close()


def _secrets(story: Story) -> Iterator[str]:
    """No log has a secret in it."""
    logs = story.processes.logs()
    yield from (f"a secret is in the logs: {name}" for name in (SECRET, story.sandbox.key) if name in logs)


def _print_summary(story: Story, books: Books) -> None:
    ends = Counter(task.fail_code or task.status for task in books.tasks.values())
    calls = story.sandbox.calls()
    faults = Counter(call["fault"] for call in calls if call["fault"])
    reviews = sum(heard.count("task.needs_review") for heard in books.events.values())
    print(f"  {len(books.tasks)} tasks, {story.processes.kills} kills, {story.callers.repeats} requests sent again")
    print(f"  ends: {json.dumps(dict(ends.most_common()))}")
    print(f"  {len(calls)} calls, with faults: {json.dumps(dict(faults.most_common()))}")
    print(f"  {reviews} marked needs_review, {len(story.given_up)} of them never heard of again")
    crashes = sum("CRASHED" in error for _kind, error in books.attempt_errors)
    print(f"  {crashes} tries ended with their worker")
