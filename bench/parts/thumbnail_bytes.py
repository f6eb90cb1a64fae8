"""How much of a clip of 20 MB is fetched for its thumbnail, counted by the server that it is fetched from.

The clip is brought in by its address, as users do it: copy and thumbnail begin together. The copy asks for the whole
file, the thumbnail for parts; only parts are counted.
"""

import time

from bench.assets_clips import write_clip
from bench.assets_places import Place, running_place, source
from bench.assets_source import Source
from bench.ground import Ground, reason, say
from bench.rows import Measured, Row, limited

SIZE = (1920, 1080)
SECONDS = 10.0
GRAIN = 0.209
LEAST, MOST = 18_000_000, 23_000_000
PATIENCE = 30.0
#: Where the index is, and what is promised.
PLACES = {"front": "< 15 %", "end": None}


def rows(ground: Ground) -> list[Row]:
    found = source(ground)
    try:
        for where in PLACES:
            write_clip(found.folder / f"{where}.mp4", SIZE, SECONDS, grain=GRAIN, faststart=where == "front")
        with running_place(ground, "sqlite") as place:
            parts = {where: Measured(observe(place, found, where)) for where in PLACES}
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        parts = dict.fromkeys(PLACES, Measured(reason=reason(failure)))
    name = "fetched for the thumbnail of a clip of 20 MB, index at its"
    return [limited(f"{name} {where}", parts[where], "%", goal) for where, goal in PLACES.items()]


def observe(place: Place, found: Source, where: str) -> float:
    size = (found.folder / f"{where}.mp4").stat().st_size
    assert LEAST <= size <= MOST, f"the clip has {size} bytes"
    found.fetched()
    asset = place.client.assets.add(found.url(f"{where}.mp4"), kind="video")
    deadline = time.monotonic() + PATIENCE
    while place.client.assets.get(asset["id"])["thumbnail_state"] != "completed":
        assert time.monotonic() < deadline, "no thumbnail came"
        time.sleep(0.05)
    requests, fetched = found.fetched()
    assert requests, "the thumbnail was not made of the source"
    say(f"  index at the {where}: {fetched:,} of {size:,} bytes in {requests} requests")
    return 100 * fetched / size
