"""What the lane of KIE's submits sustains as shipped, and that it never passes the provider's limit of 20 in 10 s.

More images are submitted at once than the lane permits in the time that is measured. As for queries, the sandbox's log
of arrivals decides. The first period, which begins with the burst, is not counted.
"""

import time

from bench.ground import Ground, reason, say
from bench.parts.lane_use import fullest_window
from bench.parts.submits import USERS, Client, serving
from bench.rows import Measured, Row, limited
from bench.service import LABELS

#: Less than KIE runs at once, and more than the lane permits until the end.
TASKS = 90
COUNT, PERIOD = 20, 10.0
PERIODS = 3
IMAGE = {"model": "nano-banana", "prompt": "a fox in the snow"}


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    try:
        with serving(ground, dialect) as client:
            used, most = observe(ground, client)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        used = most = Measured(reason=reason(failure))
    name = f"lane kie.submit as shipped, on {LABELS[dialect]}"
    return [
        limited(f"{name}: used", used, f"of {COUNT} in {PERIOD:g} s", ">= 0.9"),
        limited(f"{name}: most in any {PERIOD:g} s", most, "submits", f"<= {COUNT}"),
    ]


def observe(ground: Ground, client: Client) -> tuple[Measured, Measured]:
    ground.sandbox.forget()
    client.send(TASKS, 1.0, USERS, body=IMAGE, path="images/generate")
    time.sleep((1 + PERIODS) * PERIOD)
    times = [
        float(call["monotonic"])
        for call in ground.sandbox.ask("GET", "/_calls?route=submit")["calls"]
        if call["provider"].startswith("kie")
    ]
    begin = times[0] + PERIOD
    arrived = sum(begin <= one < begin + PERIODS * PERIOD for one in times)
    most = fullest_window(times, PERIOD)
    say(f"  kie.submit: {arrived} in {PERIODS * PERIOD:g} s, at most {most} in any {PERIOD:g} s")
    return Measured(arrived / (PERIODS * COUNT)), Measured(float(most))
