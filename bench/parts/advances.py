"""How long an advance takes: POST /v1/runs/{id}/advance of a run of 10 scenes, one after another.

Each writes ten holds, ten image jobs and ten jobs of the engine in one transaction, and answers with the whole run. The
runs are written before the clock starts; meanwhile a worker makes images of those that were advanced. Then every run is
advanced once more, which changes nothing.
"""

import time
from contextlib import ExitStack

from bench import flight
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited
from bench.service import LABELS, service_on
from longtake.client import Client

RUNS = 300
PROMPTS = [f"a fox in the snow, scene {number}" for number in range(1, 11)]
USER = "ada"
PACE = {"LONGTAKE_SCENES_PER_MINUTE": "1000", "LONGTAKE_SCENES_AT_ONCE": "8"}


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    name = f"advance of 10 scenes on {LABELS[dialect]}"
    try:
        first, again = observe(ground, dialect)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        return [limited(f"{name}: p99", Measured(reason=reason(failure)), "ms", "< 100 ms")]
    return [
        limited(f"{name}: p50", Measured(part_of(first, 0.5)), "ms", None),
        limited(f"{name}: p99", Measured(part_of(first, 0.99)), "ms", "< 100 ms"),
        limited(f"{name}, once more: p99", Measured(part_of(again, 0.99)), "ms", "< 100 ms"),
    ]


def observe(ground: Ground, dialect: str) -> tuple[list[float], list[float]]:
    """Return the milliseconds of first and of second advances, each in order."""
    with service_on(ground, dialect) as service, ExitStack() as stack:
        service.environment |= PACE
        flight.grant(service, [USER])
        token = service.command("token", "--user", USER)
        apart = dialect == "postgresql"
        stack.enter_context(service.running("serve", *(["--no-worker"] if apart else [])))
        if apart:
            stack.enter_context(service.running("worker"))
        client = stack.enter_context(Client(service.url, token))
        runs = [client.runs.create(PROMPTS)["id"] for _ in range(ground.options.number(RUNS))]
        first = [milliseconds(client, run_id, queued=len(PROMPTS)) for run_id in runs]
        again = [milliseconds(client, run_id, queued=0) for run_id in runs]
    say(f"  {dialect}: p50 {part_of(sorted(first), 0.5):.1f}, p99 {part_of(sorted(first), 0.99):.1f} ms")
    return sorted(first), sorted(again)


def milliseconds(client: Client, run_id: str, *, queued: int) -> float:
    begun = time.perf_counter()
    done = client.runs.advance(run_id)
    took = 1000 * (time.perf_counter() - begun)
    assert done["queued"] == queued, f"{done['queued']} were queued"
    return took


def part_of(ordered: list[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]
