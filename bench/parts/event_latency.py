"""How soon a client hears of a change: tasks are submitted one after the other, and all that happens to them is told.

Every event is written by the code that always writes it: a submit's by the server that took the request, those of the
provider's answer by the worker. On PostgreSQL the streams are open at a second server, which takes no requests; on
SQLite all is one process. See `bench.stream_clients` for how a delay is taken.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import children, flight
from bench.ground import Ground, reason, say
from bench.outside import wait_until_answering
from bench.parts.submits import BODY
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service, service_on

RATE = 10.0
SECONDS = 15.0
USERS = [f"user-{number}" for number in range(10)]
PLACES = {"postgresql": "PostgreSQL, read at another server", "sqlite": "SQLite FULL, one process"}


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    name = f"change to event at the client, {PLACES[dialect]}"
    try:
        seen = observe(ground, dialect)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        return [limited(f"{name}: p95", Measured(reason=reason(failure)), "ms", "< 100 ms")]
    return [
        limited(f"{name}: p50", Measured(seen["p50"]), "ms", None),
        limited(f"{name}: p95", Measured(seen["p95"]), "ms", "< 100 ms"),
    ]


def observe(ground: Ground, dialect: str) -> dict[str, Any]:
    seconds = ground.options.seconds or SECONDS
    submits = int(RATE * seconds)
    with service_on(ground, dialect) as service, serving(service) as (token, reading):
        send(service, token, 3.0)
        with following(reading, token, USERS, submits, seconds + 30.0, kind="task.created") as readers:
            send(service, token, seconds)
            seen: dict[str, Any] = readers.result(60.0)
    assert seen["came"] == submits, f"{seen['came']} of {submits} submits were told"
    say(f"  {dialect}: p50 {seen['p50']:.1f}, p95 {seen['p95']:.1f}, most {seen['most']:.1f} ms; {seen['types']}")
    return seen


@contextmanager
def serving(service: Service) -> Iterator[tuple[str, Service]]:
    """Run the service; yield a token for all users, and the server whose streams are read."""
    with ExitStack() as stack:
        service.open_lane("gemini.submit")
        flight.grant(service, USERS)
        token = service.command("token", "--role", "service", "--user", "bench")
        reading = service
        if service.dialect == "postgresql":
            reading = service.another()
            stack.enter_context(service.running("worker"))
            stack.enter_context(reading.running("serve", "--no-worker"))
            stack.enter_context(service.running("serve", "--no-worker"))
        else:
            stack.enter_context(service.running("serve"))
        yield token, reading


def send(service: Service, token: str, seconds: float) -> None:
    seen = children.call(
        "bench.open_loop:send", seconds + 60.0,
        url=f"{service.url}/v1/videos/generate", token=token, body=BODY, rate=RATE, seconds=seconds, users=USERS,
    )  # fmt: skip
    assert not seen["refused"], f"{seen['refused']} submits were refused"


@contextmanager
def following(
    service: Service, token: str, users: list[str], expected: int, seconds: float, kind: str = ""
) -> Iterator[children.Child]:
    """Run clients with a stream for each name in the list; the block begins when all are open."""
    with tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder:
        ready = Path(folder) / "ready"
        arguments = {"port": service.port, "token": token, "users": users, "expected": expected, "seconds": seconds}
        with children.running("bench.stream_clients:follow", **arguments, kind=kind, ready_file=str(ready)) as readers:
            wait_until_answering(ready.stat, readers)
            yield readers
