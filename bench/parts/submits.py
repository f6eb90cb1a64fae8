"""How long a submit takes: POST /v1/videos/generate at 100 a second, and at the highest rate that is held.

Every request holds credits, writes a task and its job, and is remembered by its idempotency key; meanwhile a worker
hands each task to its provider and writes what it answers. The provider is Google's Veo, because KIE takes no more than
100 tasks at once: with it most tasks would only wait. On SQLite the worker is inside the server; on PostgreSQL it is a
process of its own. Client and sandbox share the machine's cores with them.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench import children, flight
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service, service_on

RATE = 100
SECONDS = 20.0
MANY_SECONDS = 10.0
STEP_SECONDS = 4.0
#: How long a service that was overrun may take to work off what is left, before the next step.
QUIET_SECONDS = 20.0
STEPS_UP = (150, 200, 250, 300, 400, 500, 600, 800)
STEPS_DOWN = (75, 50, 25, 10)
LIMIT_MILLISECONDS = 100.0
USERS = [f"user-{number}" for number in range(500)]
BODY = {"model": "veo-3.1-fast", "prompt": "a fox in the snow", "parameters": {"aspect_ratio": "16:9"}}
#: Rate and seconds.
WARM = (50.0, 8.0)
PROBE = (10.0, 0.5)


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    where = f"on {LABELS[dialect]}"
    try:
        with serving(ground, dialect) as client:
            one = client.send(RATE, SECONDS, USERS[:1])
            client.wait_until_quiet()
            many = client.send(RATE, MANY_SECONDS, USERS)
            highest = highest_rate(client, from_here=holds(many))
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        missing = Measured(reason=reason(failure))
        return [limited(f"submit at {RATE} a second {where}: p99", missing, "ms", "< 100 ms")]
    result = []
    for label, seen in (("one user", one), (f"{len(USERS)} users", many)):
        name = f"submit at {RATE} a second {where}, {label}"
        result += [
            limited(f"{name}: p50", Measured(seen["p50"]), "ms", None),
            limited(f"{name}: p99", figure_of(seen), "ms", "< 100 ms"),
        ]
    name = f"highest rate of submits held {where}, p99 below {LIMIT_MILLISECONDS:g} ms"
    return [*result, limited(name, Measured(float(highest)), "a second", None)]


class Client:
    """Sends requests to a running service, from a process of its own."""

    def __init__(self, service: Service, token: str) -> None:
        self._service = service
        self._token = token

    def send(
        self,
        rate: float,
        seconds: float,
        users: list[str],
        body: dict[str, Any] = BODY,
        path: str = "videos/generate",
    ) -> dict[str, Any]:
        url = f"{self._service.url}/v1/{path}"
        seen: dict[str, Any] = children.call(
            "bench.open_loop:send", seconds + 60.0,
            url=url, token=self._token, body=body, rate=rate, seconds=seconds, users=users,
        )  # fmt: skip
        figures = ", ".join(f"{name} {value:.1f}" for name, value in seen.items())
        say(f"  {self._service.dialect} {rate:g}/s, {len(users)} users: {figures}")
        return seen

    def wait_until_quiet(self) -> None:
        """Let no step pay for the one before: wait until single requests are answered quickly again, or give up."""
        deadline = time.monotonic() + QUIET_SECONDS
        while not holds(self.send(*PROBE, USERS)) and time.monotonic() < deadline:
            pass


@contextmanager
def serving(ground: Ground, dialect: str) -> Iterator[Client]:
    """Run the service as it is meant for this database; credits are granted and the lane is open."""
    with service_on(ground, dialect) as service, ExitStack() as stack:
        service.open_lane("gemini.submit")
        flight.grant(service, USERS)
        token = service.command("token", "--role", "service", "--user", "bench")
        stack.enter_context(service.running("serve", *(["--no-worker"] if dialect == "postgresql" else [])))
        if dialect == "postgresql":
            stack.enter_context(service.running("worker"))
        client = Client(service, token)
        client.send(*WARM, USERS)
        yield client


def highest_rate(client: Client, *, from_here: bool) -> int:
    """Go up while it holds, or down until it does; 0 when even the lowest does not."""
    held = RATE if from_here else 0
    for rate in STEPS_UP if from_here else STEPS_DOWN:
        client.wait_until_quiet()
        if not holds(client.send(rate, STEP_SECONDS, USERS)):
            if from_here:
                break
            continue
        held = rate
        if not from_here:
            break
    return held


def holds(seen: dict[str, Any]) -> bool:
    return not seen["refused"] and bool(seen["p99"] < LIMIT_MILLISECONDS)


def figure_of(seen: dict[str, Any]) -> Measured:
    """A time of requests that were refused is no figure."""
    return Measured(reason=f"{seen['refused']} were refused") if seen["refused"] else Measured(seen["p99"])
