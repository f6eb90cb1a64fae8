"""The rows of a database with a million tasks, as statements that make them from numbers.

Tasks come in order of their numbers: those that have ended, spread over two months; those that wait and those that run,
all of the last hour; and last the unfinished ones of two users who are measured. Divisors are primes, so that users,
states and models are mixed with each other.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

HEAVY = "heavy"
HEAVY_UNFINISHED = 50
#: Has many tasks as well, and none of the last month.
AWAY = "away"
#: Has as many unfinished tasks as its name says, and about 450 that have ended.
TWENTY = "user-1995"
TWENTY_UNFINISHED = 20
CONVERSATIONS = 30
A_DAY = 86_400_000
DAYS = 60

#: Users are numbers in between.
USER = "CASE number WHEN 2000 THEN 'heavy' WHEN 2001 THEN 'away' ELSE 'user-' || number END"
STATUS = "CASE WHEN n % 97 < 4 THEN 'failed' WHEN n % 97 = 5 THEN 'cancelled' ELSE 'completed' END"
MODEL = (
    "CASE WHEN n % 10007 = 0 THEN 'kling-2.6' WHEN n % 3 = 0 THEN 'veo-3.1-fast'"
    " WHEN n % 7 = 0 THEN 'nano-banana-pro' ELSE 'nano-banana' END"
)
UNFINISHED = "status IN ('pending', 'running')"


@dataclass(frozen=True)
class Spelling:
    """What the databases spell differently."""

    #: A time, from milliseconds.
    moment: Callable[[str], str]
    #: An id, from two numbers; of two ids the one with the larger first number is the later.
    identifier: Callable[[str, str], str]
    json: Callable[[str], str]
    #: A table with the numbers from 0.
    numbers: Callable[[int], str]
    new_id: str
    text_of_id: str


SPELLINGS = {
    "postgresql": Spelling(
        moment=lambda ms: f"to_timestamp(({ms}) / 1000.0)",
        identifier=lambda high, low: (
            f"(lpad(to_hex(({high})::bigint), 12, '0') || '70008000' || lpad(to_hex(({low})::bigint), 12, '0'))::uuid"
        ),
        json=lambda text: f"'{text}'::jsonb",
        numbers=lambda count: f"generate_series(0::bigint, {count} - 1) AS numbers(n)",
        new_id="gen_random_uuid()",
        text_of_id="id::text",
    ),
    "sqlite": Spelling(
        moment=lambda ms: f"strftime('%Y-%m-%d %H:%M:%f', ({ms}) / 1000.0, 'unixepoch') || '000'",
        identifier=lambda high, low: f"printf('%08x-%04x-7000-8000-%012x', ({high}) >> 16, ({high}) & 65535, {low})",
        json=lambda text: f"'{text}'",
        numbers=lambda count: (
            f"(WITH RECURSIVE counted(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n < {count} - 1)"
            " SELECT n FROM counted)"
        ),
        new_id="lower(hex(randomblob(4))) || substr(id, 9)",
        text_of_id="id",
    ),
}


def statements(dialect: str, tasks: int) -> list[str]:
    """Return what fills the tables, tasks first."""
    spelling, now = SPELLINGS[dialect], int(time.time() * 1000)
    return [
        insert("tasks", task_columns(spelling, now), numbered_tasks(spelling, tasks, now)),
        *of_tasks(spelling, now),
        *of_users(spelling, now),
    ]


def numbered_tasks(spelling: Spelling, tasks: int, now: int) -> str:
    """Return the table of what makes tasks differ: number of the user, status, model, time of making."""
    waiting, running = tasks // 10, tasks // 100
    measured = tasks - HEAVY_UNFINISHED - TWENTY_UNFINISHED
    ended = measured - waiting - running
    number = (
        f"CASE WHEN n < {ended} AND n % 89 < 5 THEN 2000 WHEN n < {ended // 2} AND n % 89 < 15 THEN 2001"
        f" WHEN n < {ended} THEN n % 1999 WHEN n < {measured} THEN n % 1990"
        f" WHEN n < {measured + HEAVY_UNFINISHED} THEN 2000 ELSE 1995 END"
    )
    status = (
        f"CASE WHEN n < {ended} THEN {STATUS} WHEN n < {ended + waiting} THEN 'pending'"
        f" WHEN n < {measured} OR n % 2 = 0 THEN 'running' ELSE 'pending' END"
    )
    made = (
        f"CASE WHEN n < {ended} THEN {now - DAYS * A_DAY} + n * {DAYS * A_DAY // ended}"
        f" ELSE {now - 3_600_000} + n % 3000000 END"
    )
    columns = f"{number} AS number, {status} AS status, {MODEL} AS model, {made} AS ms, 5000 + n % 40000 AS took"
    return f"(SELECT n, {columns} FROM {spelling.numbers(tasks)}) AS made"


def task_columns(spelling: Spelling, now: int) -> dict[str, str]:
    moment = spelling.moment
    talk = spelling.identifier(f"(n / 2) % {CONVERSATIONS}", "number")
    return {
        "id": spelling.identifier("ms", "n"),
        "user_id": USER,
        "conversation_id": f"CASE WHEN n % 2 = 0 THEN {talk} END",
        "type": "CASE WHEN model IN ('kling-2.6', 'veo-3.1-fast') THEN 'video' ELSE 'image' END",
        "model": "model",
        "provider": "CASE WHEN model = 'veo-3.1-fast' THEN 'gemini_veo' ELSE 'kie' END",
        "prompt": "'a fox in the snow, number ' || n",
        "parameters": spelling.json('{"aspect_ratio": "16:9"}'),
        '"references"': spelling.json("[]"),
        "price": "4",
        "credits_held": "4",
        "reference": "'reference-' || n",
        "created_at": moment("ms"),
        "status": "status",
        "provider_task_id": "CASE WHEN status <> 'pending' THEN 'remote-' || n END",
        "poll_count": "3",
        "last_polled_at": f"CASE WHEN status <> 'pending' THEN {moment('ms + took')} END",
        "started_at": f"CASE WHEN status <> 'pending' THEN {moment('ms + 900')} END",
        "deadline_at": moment(f"CASE WHEN {UNFINISHED} THEN {now + A_DAY} ELSE ms + 600000 END"),
        "ended_at": f"CASE WHEN NOT {UNFINISHED} THEN {moment('ms + took')} END",
    }


def of_tasks(spelling: Spelling, now: int) -> list[str]:
    """Return what fills the tables whose rows belong to tasks: results, jobs, idempotency keys."""
    due = f"CASE WHEN status = 'pending' THEN created_at ELSE {spelling.moment(str(now + A_DAY))} END"
    results = {
        "id": spelling.new_id, "user_id": "user_id", "task_id": "id", "role": "'result'", "kind": "type",
        "mirror_state": "'completed'", "mirrored_at": "ended_at", "key": f"'results/' || {spelling.text_of_id}",
        "content_type": "'image/png'", "size": "1000000", "created_at": "ended_at",
    }  # fmt: skip
    jobs = {
        "kind": "CASE WHEN status = 'pending' THEN 'generation.submit' ELSE 'generation.poll' END",
        "lane": "CASE WHEN status = 'pending' THEN 'kie.submit' ELSE 'kie.query' END",
        "key": spelling.text_of_id, "subject": spelling.text_of_id, "args": spelling.json('{"provider": "kie"}'),
        "due_at": due, "created_at": "created_at",
    }  # fmt: skip
    keys = {
        "user_id": "user_id", "route": "'images/generate'", "key": spelling.text_of_id, "fingerprint": "'-'",
        "status": "202", "answer": spelling.json('{"status": "pending"}'),
    }  # fmt: skip
    return [
        insert("assets", results, "tasks WHERE status = 'completed'"),
        insert("jobs", jobs, f"tasks WHERE {UNFINISHED}"),
        insert("idempotency_keys", keys, "tasks WHERE status = 'pending'"),
    ]


def of_users(spelling: Spelling, now: int) -> list[str]:
    """Return what fills the tables whose rows belong to users: conversations and balances."""
    people = f"(SELECT n, n % 2002 AS number, n / 2002 AS place FROM {spelling.numbers(2002 * CONVERSATIONS)}) AS made"
    conversations = {
        "id": spelling.identifier("place", "number"), "user_id": USER, "title": "'Foxes ' || n",
        "unread": "CASE WHEN place = 0 THEN 1 ELSE 0 END", "changed_at": spelling.moment(f"{now} - n * 1000"),
    }  # fmt: skip
    balances = {"user_id": USER, "available": "1000000", "held": "80"}
    return [
        insert("conversations", conversations, people),
        insert("credit_balances", balances, f"{people} WHERE place = 0"),
    ]


def insert(table: str, columns: dict[str, str], source: str) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM {source}"
