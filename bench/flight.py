"""Tasks in flight, written as their submits would have left them: running, held for, followed by a poll.

Ten thousand submits through the API would take minutes and be no other rows.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench import children
from bench.service import Service

if TYPE_CHECKING:
    from longtake.db import Transaction
    from longtake.engine.engine import Engine

MODEL = "nano-banana"
PRICE = 4
USERS = 100
CHUNK = 1_000
BALANCE = 10**9
FILL_SECONDS = 120.0
#: Longer than any measurement: no deadline may end a task in the middle of it.
DEADLINE_SECONDS = 36_000.0


def fill(service: Service, remote_ids: list[str], *, first: float = 0.0, spread: float = 0.0) -> None:
    """Write a task for each remote id; polls become due evenly over `spread` seconds, `first` seconds from now."""
    path = Path(service.environment["LONGTAKE_DATA_DIR"]) / "remote-ids.json"
    path.write_text(json.dumps(remote_ids))
    children.call(
        "bench.flight:write", FILL_SECONDS,
        url=service.database, folder=str(path.parent), remote_ids=str(path), first=first, spread=spread,
    )  # fmt: skip


def grant(service: Service, users: list[str]) -> None:
    """Give users more credits than they can spend."""
    folder = service.environment["LONGTAKE_DATA_DIR"]
    children.call("bench.flight:write_grants", FILL_SECONDS, url=service.database, folder=folder, users=users)


def write(url: str, folder: str, remote_ids: str, first: float, spread: float) -> None:
    found = json.loads(Path(remote_ids).read_text())
    asyncio.run(write_all(url, folder, found, first, spread))


def write_grants(url: str, folder: str, users: list[str]) -> None:
    asyncio.run(write_all(url, folder, [], 0.0, 0.0, users))


async def write_all(
    url: str, folder: str, remote_ids: list[str], first: float, spread: float, users: list[str] | None = None
) -> None:
    from longtake.db import open_database
    from longtake.server.application import Application
    from longtake.settings import Settings

    database = open_database(url)
    try:
        application = Application(Settings(data_dir=Path(folder), database_url=url), database)
        engine = application.build()
        await engine.start()
        await database.run(grant_credits, users or [user_of(number) for number in range(USERS)])
        for start, chunk in chunks(remote_ids):
            delays = [first + spread * (start + number) / len(remote_ids) for number in range(len(chunk))]
            await database.run(write_tasks, engine, chunk, delays, start)
        await application.close()
    finally:
        database.close()


def chunks(remote_ids: list[str]) -> Iterator[tuple[int, list[str]]]:
    for start in range(0, len(remote_ids), CHUNK):
        yield start, remote_ids[start : start + CHUNK]


def user_of(number: int) -> str:
    return f"user-{number % USERS}"


def grant_credits(tx: "Transaction", users: list[str]) -> None:
    from longtake.services.credits import grant

    for user in users:
        grant(tx, user_id=user, amount=BALANCE, reason="bench", made_by="bench")


def write_tasks(tx: "Transaction", engine: "Engine", remote_ids: list[str], delays: list[float], start: int) -> None:
    from sqlalchemy import insert

    from longtake.capabilities.generation.tables import POLL, submissions, tasks
    from longtake.clock import new_id
    from longtake.db.dialects import NOW
    from longtake.engine.jobs import JobRequest
    from longtake.services.credits.holds import credit_holds
    from longtake.services.credits.transfers import Transfer, post

    rows = [task_row(remote, start + number) for number, remote in enumerate(remote_ids)]
    common = started(tx)
    tx.execute(insert(tasks), [{**row, **common} for row in rows])
    held = {"amount": PRICE, "state": "open"}
    opened = insert(credit_holds).values(opened_at=NOW)
    tx.execute(opened, [{"task_id": row["id"], "user_id": row["user_id"], **held} for row in rows])
    transfers = [Transfer(new_id(), "hold", row["user_id"], PRICE, row["id"]) for row in rows]
    post(tx, transfers, Counter(row["user_id"] for row in rows))
    facts = {"provider": "kie", "fact": "accepted"}
    known = [{"task_id": row["id"], "provider_task_id": row["provider_task_id"], **facts} for row in rows]
    tx.execute(insert(submissions).values(at=NOW), known)
    polls = [
        JobRequest(
            POLL,
            {"provider": "kie", "id": row["provider_task_id"], "type": "image", "user": row["user_id"]},
            key=row["id"],
            delay=delay,
            lane="kie.query",
            subject=row["id"],
        )
        for row, delay in zip(rows, delays, strict=True)
    ]
    engine.enqueue_many(tx, polls)


def task_row(remote_id: str, number: int) -> dict[str, str]:
    from longtake.clock import new_id

    return {"id": new_id(), "user_id": user_of(number), "provider_task_id": remote_id, "reference": new_id()}


def started(tx: "Transaction") -> dict[str, object]:
    from datetime import timedelta

    from sqlalchemy import select

    from longtake.db.dialects import NOW

    now = tx.execute(select(NOW)).scalar_one()
    return {
        "type": "image",
        "model": MODEL,
        "provider": "kie",
        "prompt": "a fox in the snow",
        "parameters": {},
        "references": [],
        "price": PRICE,
        "credits_held": PRICE,
        "credits_refunded": 0,
        "status": "running",
        "needs_review": False,
        "poll_count": 0,
        "created_at": now,
        "started_at": now,
        "deadline_at": now + timedelta(seconds=DEADLINE_SECONDS),
    }
