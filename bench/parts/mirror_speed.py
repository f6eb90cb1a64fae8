"""A file of 500 MB from its source to our storage, beside `rclone copyurl` from the same source to the same store.

Ours is brought in by its address; its time is that of its row, from registered to saved: the claim of the job, the
SHA-256 of all bytes, fsync where it is a folder, and the thumbnail, which is made at the same time, are in it.
rclone's is that of its process. Memory is the worker's: the highest of all rounds minus what it had after a first,
small copy.
"""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path

from bench.assets_clips import write_clip, write_large
from bench.assets_places import PLACES, Place, running_place, s3_server, source
from bench.ground import Ground, reason
from bench.rows import Measured, Row, compared, limited
from bench.usage import Peak
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY

SIZE = 500_000_000
PATIENCE = 120.0
#: Between two contenders, so that neither pays for what the other left behind.
REST_SECONDS = 1.0
OURS, RCLONE, SYNCED = "longtake", "rclone copyurl", "rclone copyurl, then sync"
NUMBERS = count(1)


def rows(ground: Ground) -> list[Row]:
    found = source(ground)
    clip, large = found.folder / "small.mp4", found.folder / "large.mp4"
    write_clip(clip, (640, 360), 3.0, grain=0.15, faststart=True)
    write_large(large, clip, ground.options.number(SIZE))
    return [row for dialect in PLACES for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    name = f"copy of a file of {ground.options.number(SIZE) // 1_000_000} MB, {PLACES[dialect]}"
    try:
        with running_place(ground, dialect) as place:
            copy_small(place, source(ground).url("small.mp4"))
            memory = Peak(place.worker.pid)
            speeds = ground.rounds(contenders(ground, place, dialect))
            added = Measured(memory.added() / 1e6)
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        return [limited(name, Measured(reason=reason(failure)), "MB/s", ">= 0.8")]
    goals: dict[str, str | None] = {RCLONE: ">= 0.8", SYNCED: None}
    peers = [peer for peer in goals if peer in speeds]
    beside = [compared(name, speeds[OURS], "MB/s", peer, speeds[peer], goals[peer]) for peer in peers]
    return [*beside, limited(f"{name}: memory added to the worker", added, "MB", "<= 64 MB")]


def contenders(ground: Ground, place: Place, dialect: str) -> dict[str, Callable[[], float]]:
    large = source(ground).folder / "large.mp4"
    url, size = source(ground).url(large.name), large.stat().st_size
    ours = partial(copy_ours, place, url, size, checksum_of(large))
    if dialect == "postgresql":
        return {OURS: ours, RCLONE: partial(copy_by_rclone, url, size, f"bench:{BUCKET}/rclone", s3_remote(ground))}
    folder = Path(place.service.environment["LONGTAKE_DATA_DIR"]) / "rclone"
    into_folder = partial(copy_by_rclone, url, size, str(folder), {})
    return {OURS: ours, RCLONE: into_folder, SYNCED: partial(into_folder, sync=True)}


def copy_small(place: Place, url: str) -> None:
    """Let the worker load what it loads once."""
    copy(place, url)


def copy_ours(place: Place, url: str, size: int, checksum: str) -> float:
    asset = copy(place, f"{url}?{next(NUMBERS)}")
    assert (asset["size"], asset["checksum"]) == (size, checksum), "the copy is another file"
    took = moment(asset["saved_at"]) - moment(asset["created_at"])
    place.client.assets.delete(str(asset["id"]))
    time.sleep(REST_SECONDS)
    return size / took / 1e6


def copy(place: Place, url: str) -> dict[str, object]:
    """Bring a file in; return it when its copy, thumbnail and preview are there."""
    asset_id = place.client.assets.add(url, kind="video")["id"]
    deadline = time.monotonic() + PATIENCE
    while True:
        asset = dict(place.client.assets.get(asset_id))
        if asset["save_state"] == "success" and asset["preview_url"]:
            return asset
        assert time.monotonic() < deadline, f"copy {asset['save_state']}, thumbnail {asset['thumbnail_state']}"
        time.sleep(0.25)


def moment(text: object) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


def copy_by_rclone(url: str, size: int, folder: str, remote: dict[str, str], *, sync: bool = False) -> float:
    target = f"{folder}/{next(NUMBERS)}.mp4"
    # No settings of whoever measures; all that is not said here is as shipped.
    environment = {"PATH": os.environ["PATH"], "RCLONE_CONFIG": os.devnull, **remote}
    program = str(Path(sys.executable).parent / "rclone")
    run = partial(subprocess.run, env=environment, check=True, capture_output=True, timeout=PATIENCE)
    begun = time.monotonic()
    run([program, "copyurl", url, target])
    if sync:
        run(["sync", target])
    took = time.monotonic() - begun
    told = run([program, "lsf", "--format", "s", target]).stdout
    assert int(told) == size, "the copy is another file"
    run([program, "deletefile", target])
    time.sleep(REST_SECONDS)
    return size / took / 1e6


def s3_remote(ground: Ground) -> dict[str, str]:
    """Return the remote `bench` as rclone reads it from its environment."""
    told = {
        "TYPE": "s3",
        "PROVIDER": "SeaweedFS",
        "ENDPOINT": s3_server(ground).endpoint,
        "REGION": "us-east-1",
        "ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
    }
    return {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in told.items()}


def checksum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
