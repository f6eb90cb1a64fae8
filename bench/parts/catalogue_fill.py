"""How fast a catalogue fills: titles are there, and no limit but the machine holds up their posters and ids.

All titles are written while the catalogue is stopped. The clock runs from its start until every title has its poster
in the storage and its look-up is over, as a second connection reads it from the rows. The sandbox knows what is true:
every id must be the right one, and no page of a year's list may be asked for twice. After that a second sync finds
nothing to do.
"""

import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from bench.catalogue_place import Place, running_catalogue, true_titles
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited
from bench.service import LABELS, service_on
from bench.settled import Check, in_postgresql, in_sqlite
from bench.usage import memory_bytes, server_seconds

TITLES = 4_000
OPEN = {"LONGTAKE_TMDB_PER_SECOND": "0", "LONGTAKE_TITLES_AT_ONCE": "0", "LONGTAKE_POSTERS_AT_ONCE": "0"}
PATIENCE = 600.0
LOOK_SECONDS = 0.25
MEGABYTE = 1_000_000
#: What a title is that is not through.
LEFT = "poster_url NOT LIKE '/posters/%' OR (tmdb_id IS NULL AND tmdb_looked_up_at IS NULL)"
OBSERVERS = {"sqlite": in_sqlite, "postgresql": in_postgresql}
FOUND = ("exact", "year", "alias")


@dataclass
class Filled:
    """What was seen of one run."""

    rate: float = 0.0
    #: Processor time of the worker and all decoders it started, in milliseconds for each title.
    processor: float = 0.0
    #: Of the worker: before anything, half way, at the end.
    memory: list[int] = field(default_factory=list)
    pages: int = 0
    pages_twice: int = 0
    wrong_ids: int = 0
    again_requests: int = 0
    again_seconds: float = 0.0


def rows(ground: Ground) -> list[Row]:
    titles = ground.options.number(TITLES)
    runs: dict[str, list[Filled]] = {dialect: [] for dialect in LABELS}
    reasons: dict[str, str] = {}
    for turn in range(ground.options.runs):
        for dialect, seen in runs.items():
            if dialect not in reasons:
                try:
                    seen.append(observe(ground, dialect, titles))
                except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for this figure alone
                    reasons[dialect] = reason(failure)
                else:
                    say(f"  {turn + 1}/{ground.options.runs} {dialect}: {told(seen[-1])}")
    return [row for dialect in LABELS for row in rows_on(dialect, titles, runs[dialect], reasons.get(dialect))]


def told(one: Filled) -> str:
    memory = ", ".join(f"{size / MEGABYTE:.0f}" for size in one.memory)
    rate = f"{one.rate:.0f} titles/s, {one.processor:.1f} ms of processor each"
    return f"{rate}; memory {memory} MB; second sync {one.again_seconds:.2f} s"


def rows_on(dialect: str, titles: int, runs: list[Filled], why: str | None) -> list[Row]:
    name = f"{titles:,} titles without limits, {LABELS[dialect]}"
    if why is not None:
        return [limited(name, Measured(reason=why), "titles/s", ">= 200 titles/s")]
    begin, middle, end = (statistics.median(one.memory[place] for one in runs) / MEGABYTE for place in range(3))

    def most(which: str) -> Measured:
        return Measured(float(max(getattr(one, which) for one in runs)))

    def median(which: str) -> Measured:
        return Measured(statistics.median(getattr(one, which) for one in runs))

    return [
        limited(f"{name}: poster stored and id looked up", median("rate"), "titles/s", ">= 200 titles/s"),
        limited(f"{name}: processor of worker and decoders", median("processor"), "ms a title", None),
        limited(f"{name}: ids that are wrong or missing, at most", most("wrong_ids"), "titles", "<= 0"),
        limited(f"{name}: pages of years' lists", median("pages"), "requests", None),
        limited(f"{name}: pages asked for more than once, at most", most("pages_twice"), "pages", "<= 0"),
        limited(f"{name}: worker's memory before", Measured(begin), "MB", None),
        limited(f"{name}: worker's memory half way", Measured(middle), "MB", None),
        limited(f"{name}: worker's memory added from there to the end", Measured(end - middle), "MB", "<= 10 MB"),
        limited(f"{name}, a second sync: requests, at most", most("again_requests"), "requests", "<= 0"),
        limited(f"{name}, a second sync: time", median("again_seconds"), "s", "< 1 s"),
    ]


def observe(ground: Ground, dialect: str, number: int) -> Filled:
    sandbox, filled = ground.sandbox, Filled()
    truth = true_titles(sandbox, number)
    with (
        service_on(ground, dialect, ground.lasting_folder()) as service,
        running_catalogue(service, ground, **OPEN) as place,
    ):
        place.ask("POST", "/shutdown")
        place.bring_in([as_given(one) for one in truth])
        sandbox.forget()
        look = OBSERVERS[dialect]
        with (
            look(f"SELECT count(*) <= {number // 2} FROM titles WHERE {LEFT}")(service.database) as half_through,
            look(f"SELECT NOT EXISTS (SELECT 1 FROM titles WHERE {LEFT})")(service.database) as all_through,
        ):
            watch(place, filled, number, half_through, all_through)
        at_rest(place)
        calls = sandbox.ask("GET", "/_calls?route=discover")["calls"]
        pages = Counter(call["query"] for call in calls)
        filled.pages, filled.pages_twice = len(calls), sum(count > 1 for count in pages.values())
        filled.wrong_ids = count_wrong(place, truth)
        sandbox.forget()
        begun = time.monotonic()
        place.ask("POST", "/sync")
        at_rest(place)
        filled.again_seconds = time.monotonic() - begun
        filled.again_requests = len(sandbox.ask("GET", "/_calls")["calls"])
    return filled


def as_given(title: dict[str, Any]) -> dict[str, Any]:
    names = {"title_japanese": title["names"]["ja"], "title_chinese": title["names"]["zh"]}
    english = {"title_english": title["names"]["en"]}
    return {"bangumi_id": title["bangumi_id"], **names, **english, "year": title["year"], "poster": title["cover_url"]}


def watch(place: Place, filled: Filled, number: int, half_through: Check, all_through: Check) -> None:
    filled.memory.append(memory_bytes(place.worker.pid))
    processor = server_seconds(place.worker.pid)
    begun = time.monotonic()
    place.ask("POST", "/start")
    for check in (half_through, all_through):
        while not check():
            place.worker.check()
            assert time.monotonic() - begun < PATIENCE, f"{number} titles took more than {PATIENCE:g} s"
            time.sleep(LOOK_SECONDS)
        filled.rate = number / (time.monotonic() - begun)
        filled.processor = 1000 * (server_seconds(place.worker.pid) - processor) / number
        filled.memory.append(memory_bytes(place.worker.pid))


def at_rest(place: Place) -> None:
    deadline = time.monotonic() + PATIENCE
    while place.ask("GET", "/status")["syncing"]:
        assert time.monotonic() < deadline, "the sync does not end"
        time.sleep(0.02)


def count_wrong(place: Place, truth: list[dict[str, Any]]) -> int:
    """Count titles whose id is not the true one, or is missing though TMDB has one that can be told."""
    found: dict[int, int | None] = {}
    before = ""
    while True:
        page = place.ask("GET", f"/titles?limit=200{before}")
        found |= {title["bangumi_id"]: title["tmdb_id"] for title in page["titles"]}
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    return sum(found[one["bangumi_id"]] != (one["tmdb_id"] if one["kind"] in FOUND else None) for one in truth)
