"""How exactly a limit is used: a query lane at n requests a second, with far more polls due than it permits.

The sandbox's log of arrivals decides. `used` is what arrived in ten seconds as a part of n; `most in any second` is the
fullest window of one second, wherever it begins, from the moment the limit was set until the next one.
"""

import time
from collections.abc import Sequence
from itertools import pairwise

from bench import flight
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited
from bench.service import LABELS, Service, service_on

TASKS = 10_000
#: Rising, so that what arrives while a limit is changed is within the new one.
RATES = (10, 50, 400)
WARM_SECONDS = 2.0
WINDOW_SECONDS = 10.0
START_SECONDS = 30.0


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    try:
        figures = observe(ground, dialect)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        figures = dict.fromkeys(RATES, (Measured(reason=reason(failure)),) * 2)
    result = []
    for rate in RATES:
        used, most = figures[rate]
        name = f"query lane at {rate} a second on {LABELS[dialect]}"
        result += [
            limited(f"{name}: used", used, f"of {rate}", ">= 0.96"),
            limited(f"{name}: most in any second", most, "requests", f"<= {rate}"),
        ]
    return result


def observe(ground: Ground, dialect: str) -> dict[int, tuple[Measured, Measured]]:
    with service_on(ground, dialect) as service:
        flight.fill(service, ground.sandbox.tasks(TASKS))
        set_rate(service, RATES[0])
        ground.sandbox.forget()
        # A SQLite file belongs to one process, and a worker takes no commands: there it is the server's.
        with service.running("worker" if dialect == "postgresql" else "serve"):
            wait_for_first_query(ground)
            changes = [time.monotonic()]
            for rate in RATES:
                if rate != RATES[0]:
                    changes.append(time.monotonic())
                    set_rate(service, rate)
                time.sleep(WARM_SECONDS + WINDOW_SECONDS)
            changes.append(time.monotonic())
        times = [float(call["monotonic"]) for call in ground.sandbox.queries()]
    figures = {}
    for rate, (begin, end) in zip(RATES, pairwise(changes), strict=True):
        arrived = sum(1 for one in times if end - WINDOW_SECONDS <= one < end)
        most = fullest_second([one for one in times if begin <= one < end])
        figures[rate] = (Measured(arrived / WINDOW_SECONDS / rate), Measured(float(most)))
        say(f"  {dialect} {rate}/s: {arrived} in {WINDOW_SECONDS:g} s, at most {most} in any second")
    return figures


def set_rate(service: Service, rate: int) -> None:
    service.command("lanes", "set", "kie.query", "--rate", f"{rate}/1")


def wait_for_first_query(ground: Ground) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ground.sandbox.answered("query"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing was asked within {START_SECONDS:g} s")
        time.sleep(0.05)


def fullest_second(times: Sequence[float]) -> int:
    """Return how many of the times, which are in order, the fullest half-open second holds."""
    return fullest_window(times, 1.0)


def fullest_window(times: Sequence[float], seconds: float) -> int:
    """Do the same for a window of any length."""
    most = first = 0
    for last, moment in enumerate(times):
        while times[first] <= moment - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
