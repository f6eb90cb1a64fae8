"""What open streams cost: 1,000 on one server, 50 users with 20 each, and 5,500 deliveries a second over all of them.

On PostgreSQL a worker process writes the events; on SQLite the worker inside the server does, and its work is in the
figures. Nothing may be missing: each stream has to get each of its user's events.
"""

import resource
import time
from contextlib import ExitStack
from typing import Any

from bench import telling
from bench.ground import Ground, reason, say
from bench.parts.event_latency import following
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service, service_on
from bench.usage import memory_bytes, processor_seconds

STREAMS_A_USER = 20
USERS = [f"user-{number}" for number in range(50)]
#: Events a second; each goes to twenty streams.
RATE = 275.0
SECONDS = 15.0
OPEN_FILES = 8_192
#: The memory of a server that has just opened its streams is read when it has come to rest.
REST_SECONDS = 2.0


def rows(ground: Ground) -> list[Row]:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Inherited by the server and by the clients.
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard), hard))
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    name = f"{len(USERS) * STREAMS_A_USER:,} streams on one server, {LABELS[dialect]}"
    try:
        seen = observe(ground, dialect)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        missing = Measured(reason=reason(failure))
        return [limited(f"{name}: event to client, p95", missing, "ms", "< 500 ms")]
    return [
        limited(f"{name}: memory a stream", Measured(seen["memory"]), "KB", "<= 100 KB"),
        limited(f"{name}: memory a stream, after the events", Measured(seen["memory_after"]), "KB", None),
        limited(f"{name}: delivered", Measured(seen["rate"]), "events/s", ">= 5000 events/s"),
        limited(f"{name}: event to client, p50", Measured(seen["p50"]), "ms", None),
        limited(f"{name}: event to client, p95", Measured(seen["p95"]), "ms", "< 500 ms"),
        limited(f"{name}: server's processor meanwhile", Measured(seen["processor"]), "% of a core", None),
    ]


def observe(ground: Ground, dialect: str) -> dict[str, Any]:
    events = int(RATE * (ground.options.seconds or SECONDS))
    with service_on(ground, dialect) as service, ExitStack() as stack:
        service.environment["LONGTAKE_APP"] = telling.APPLICATION
        token = service.command("token", "--role", "service", "--user", "bench")
        apart = dialect == "postgresql"
        server = stack.enter_context(service.running("serve", *(["--no-worker"] if apart else [])))
        if apart:
            stack.enter_context(service.running("worker"))
        warm(service, token)
        before = memory_bytes(server.pid)
        seen = deliver(service, token, server.pid, events)
    streams = len(USERS) * STREAMS_A_USER
    assert seen["came"] == events * STREAMS_A_USER, f"{seen['came']} of {events * STREAMS_A_USER} deliveries came"
    assert not seen["ended"], f"{seen['ended']} streams were ended"
    for when in ("memory", "memory_after"):
        seen[when] = (seen[when] - before) / streams / 1000
    said = ", ".join(f"{key} {seen[key]:.1f}" for key in ("memory", "memory_after", "rate", "p50", "p95", "most"))
    say(f"  {dialect}: {said}, processor {seen['processor']:.0f} %")
    return seen


def warm(service: Service, token: str) -> None:
    """Let the server load what it loads once: whatever the first streams and events bring in belongs to none."""
    with following(service, token, USERS[:10], 100, 20.0) as readers:
        telling.order(service, 100, 100.0, USERS[:10])
        readers.result(40.0)
    time.sleep(REST_SECONDS)


def deliver(service: Service, token: str, server: int, events: int) -> dict[str, Any]:
    expected, seconds = events * STREAMS_A_USER, events / RATE
    with following(service, token, USERS * STREAMS_A_USER, expected, seconds + 40.0) as readers:
        time.sleep(REST_SECONDS)
        memory = memory_bytes(server)
        begun, spent = time.monotonic(), processor_seconds(server)
        telling.order(service, events, RATE, USERS)
        # Shortly before the last event: the clients close all streams with it.
        time.sleep(seconds - 0.5)
        used = (processor_seconds(server) - spent) / (time.monotonic() - begun)
        after = {"memory": memory, "memory_after": memory_bytes(server), "processor": 100 * used}
        seen: dict[str, Any] = readers.result(60.0)
    return {**seen, **after}
