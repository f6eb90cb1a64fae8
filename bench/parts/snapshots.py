"""How long GET /v1/snapshot takes with a million tasks in the table: one request after the other, on one connection.

Half of the requests are of a user with 20 unfinished tasks, half of one with 50 unfinished and about 50,000 ended ones;
nothing is kept between two requests but what the server itself keeps for a second. No worker runs.
"""

import http.client
import json
import time

from bench import children
from bench.ground import Ground, reason, say
from bench.million import million_on
from bench.million_rows import HEAVY, HEAVY_UNFINISHED, TWENTY, TWENTY_UNFINISHED
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service

REQUESTS = 400
#: Slow ones are fewer.
MOST_SECONDS = 30.0
WARM = 20
RECENT = 20
PEOPLE = {TWENTY: TWENTY_UNFINISHED, HEAVY: HEAVY_UNFINISHED}


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    name = f"snapshot on {LABELS[dialect]}"
    try:
        seen = observe(million_on(ground, dialect))
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        return [limited(f"{name}: p99", Measured(reason=reason(failure)), "ms", "< 200 ms")]
    result = []
    for user, took in seen.items():
        label = f"{name}, {PEOPLE[user]} unfinished tasks"
        p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
        say(f"  {dialect}, {PEOPLE[user]} unfinished: p50 {p50:.1f}, p99 {p99:.1f}, most {took[-1]:.1f} ms")
        result += [
            limited(f"{label}: p50", Measured(p50), "ms", None),
            limited(f"{label}: p99", Measured(p99), "ms", "< 200 ms"),
        ]
    return result


def observe(service: Service) -> dict[str, list[float]]:
    token = service.command("token", "--role", "service", "--user", "bench")
    with service.running("serve", "--no-worker"):
        return {
            user: children.call("bench.parts.snapshots:ask", 120.0, port=service.port, token=token, user=user)
            for user in PEOPLE
        }


def ask(port: int, token: str, user: str) -> list[float]:
    """Return the milliseconds of all requests, in order of length."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Authorization": f"Bearer {token}", "Longtake-User": user}

    def one() -> tuple[float, bytes]:
        begun = time.perf_counter()
        connection.request("GET", "/v1/snapshot", headers=headers)
        body = connection.getresponse().read()
        return (time.perf_counter() - begun) * 1000, body

    shown = json.loads(one()[1])
    assert len(shown["tasks"]) == PEOPLE[user], f"{len(shown['tasks'])} unfinished tasks were shown"
    assert len(shown["recent"]) == RECENT, "the recent tasks are missing"
    for _ in range(WARM):
        one()
    give_up_at = time.monotonic() + MOST_SECONDS
    took: list[float] = []
    while len(took) < REQUESTS and time.monotonic() < give_up_at:
        took.append(one()[0])
    return sorted(took)
