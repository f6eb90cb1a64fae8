"""How soon a finished video has a thumbnail: 50 are asked for, and their provider is done with all of them at once.

The clock of each runs from the moment that its row says `completed` (the `at` of `task.completed`, the database's time)
until a client hears of `asset.thumbnail`. Only then is the thumbnail in the storage and named by its row; each is
fetched afterwards. Copies of all 50 are made meanwhile, and previews after that. Ten videos go before, so that the
sandbox has drawn its clips and decoders are there, as on any day after the first minute.
"""

import time
import urllib.request
from contextlib import closing
from datetime import datetime
from threading import Thread

from bench.assets_places import PLACES, Place, running_place
from bench.ground import Ground, reason, say
from bench.outside import Sandbox
from bench.rows import Measured, Row, limited
from longtake.client import Client, Event

VIDEOS = 50
PROMPTS = [f"a fox in the snow, take {number}" for number in range(10)]
#: Longer than it takes to submit all.
SECONDS = 12.0
PATIENCE = 60.0
TYPES = ("task.completed", "asset.thumbnail")
JPEG = b"\xff\xd8\xff"


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in PLACES for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    name = f"{VIDEOS} videos completed at once to thumbnail visible, {PLACES[dialect]}"
    try:
        delays = observe(ground, dialect)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        return [limited(f"{name}: p95", Measured(reason=reason(failure)), "s", "< 2 s")]
    return [
        limited(f"{name}: p50", Measured(delays[len(delays) // 2]), "s", None),
        limited(f"{name}: p95", Measured(delays[int(len(delays) * 0.95)]), "s", "< 2 s"),
        limited(f"{name}: longest", Measured(delays[-1]), "s", None),
    ]


def observe(ground: Ground, dialect: str) -> list[float]:
    """Return the delays of the median run, in order."""
    runs = []
    for turn in range(ground.options.runs):
        with running_place(ground, dialect) as place:
            generate(ground.sandbox, place, PROMPTS, seconds=2.0)
            prompts = PROMPTS * (VIDEOS // len(PROMPTS))
            delays, spread = generate(ground.sandbox, place, prompts, seconds=SECONDS)
        runs.append(delays)
        figures = (
            f"p50 {delays[len(delays) // 2]:.2f}, p95 {delays[int(len(delays) * 0.95)]:.2f}, most {delays[-1]:.2f}"
        )
        say(f"  {turn + 1}/{ground.options.runs} {dialect}: {figures} s; all were completed within {spread:.2f} s")
    return sorted(runs, key=lambda delays: delays[int(len(delays) * 0.95)])[len(runs) // 2]


def generate(sandbox: Sandbox, place: Place, prompts: list[str], *, seconds: float) -> tuple[list[float], float]:
    """Ask for videos that all end at one moment; return how late thumbnails were, and how long completing took."""
    came: list[tuple[Event, float]] = []
    ready = Thread(target=listen, args=(place, came, 2 * len(prompts)), daemon=True)
    ready.start()
    while not came:
        time.sleep(0.01)
    ends_at = time.monotonic() + seconds
    for prompt in prompts:
        sandbox.set(instant=False, seconds={"video": max(ends_at - time.monotonic(), 0.1)})
        place.client.generate(prompt, type="video", model="kling-2.6")
    ready.join(PATIENCE)
    assert not ready.is_alive(), f"{len(came) - 1} of {2 * len(prompts)} events came"
    completed = {event.subject: moment_of(event) for event, _at in came if event.type == "task.completed"}
    pictures = [(event, at) for event, at in came if event.type == "asset.thumbnail"]
    fetch_all(place, [str(event.subject) for event, _at in pictures])
    delays = sorted(at - completed[event.data["task_id"]] for event, at in pictures)
    return delays, max(completed.values()) - min(completed.values())


def listen(place: Place, came: list[tuple[Event, float]], expected: int) -> None:
    """Note events with their time of arrival; the first is that the stream has begun."""
    with Client(place.service.url, place.token) as client, closing(client.events(types=TYPES)) as events:
        for event in events:
            came.append((event, time.time()))
            if len(came) > expected:
                return


def moment_of(event: Event) -> float:
    return datetime.fromisoformat(str(event.at)).timestamp()


def fetch_all(place: Place, assets: list[str]) -> None:
    for asset_id in assets:
        url = place.client.assets.get(asset_id)["thumbnail_url"]
        with urllib.request.urlopen(str(url), timeout=10) as answer:  # noqa: S310 - our own server
            assert answer.read(3) == JPEG
