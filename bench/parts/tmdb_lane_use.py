"""How exactly TMDB's limit is used: n requests a second, with far more titles to be searched for than it permits.

Only the names of the titles are known, so each of them is searched for. The sandbox's log of arrivals decides, as for
query lanes.
"""

import time

from bench.catalogue_place import running_catalogue, true_titles
from bench.ground import Ground, reason, say
from bench.parts.lane_use import WARM_SECONDS, WINDOW_SECONDS, fullest_second
from bench.rows import Measured, Row, limited
from bench.service import LABELS, service_on

TITLES = 4_000
RATES = (40, 200)
#: As shipped; for the higher rate as many more as it is higher.
AT_ONCE = {40: "5", 200: "25"}
START_SECONDS = 30.0


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    result = []
    for rate in RATES:
        try:
            used, most = observe(ground, dialect, rate)
        except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
            used = most = Measured(reason=reason(failure))
        name = f"TMDB at {rate} a second on {LABELS[dialect]}"
        result += [
            limited(f"{name}: used", used, f"of {rate}", ">= 0.95"),
            limited(f"{name}: most in any second", most, "requests", f"<= {rate}"),
        ]
    return result


def observe(ground: Ground, dialect: str, rate: int) -> tuple[Measured, Measured]:
    sandbox = ground.sandbox
    # Without a year, the same name is the same title.
    named = [{"title_japanese": name} for name in {one["names"]["ja"]: None for one in true_titles(sandbox, TITLES)}]
    with service_on(ground, dialect) as service:
        limits = {"LONGTAKE_TMDB_PER_SECOND": str(rate), "LONGTAKE_TITLES_AT_ONCE": AT_ONCE[rate]}
        with running_catalogue(service, ground, **limits) as place:
            place.ask("POST", "/shutdown")
            place.bring_in(named)
            sandbox.forget()
            place.ask("POST", "/start")
            deadline = time.monotonic() + START_SECONDS
            while not sandbox.answered("search"):
                assert time.monotonic() < deadline, f"nothing was asked within {START_SECONDS:g} s"
                time.sleep(0.05)
            time.sleep(WARM_SECONDS + WINDOW_SECONDS)
            end = time.monotonic()
            times = [float(call["monotonic"]) for call in sandbox.ask("GET", "/_calls?provider=tmdb")["calls"]]
    arrived = sum(1 for one in times if end - WINDOW_SECONDS <= one < end)
    most = fullest_second(times)
    say(f"  {dialect} {rate}/s: {arrived} in {WINDOW_SECONDS:g} s, at most {most} in any second")
    return Measured(arrived / WINDOW_SECONDS / rate), Measured(float(most))
