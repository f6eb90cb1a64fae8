"""A kill test of the catalogue: thousands of titles, sources that misbehave, workers killed with -9; all is compared.

The sandbox is the outside world: it is not killed, and its log says what was really asked of it, and when.
"""

# ruff: noqa: T201 - shown by pytest when the test fails
from __future__ import annotations

import asyncio
import hashlib
import json
import time
import urllib.request
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtake.capabilities.catalogue.poster_fetcher import poster_hash
from longtake.services.accounts.own_tokens import ExpectedClaims, mint
from proofs.faults.generation_processes import SECRET, Processes
from tests.outside import plain_sql
from tests.sandbox_process import running_sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from proofs.faults.generation_processes import Killable
    from tests.sandbox_process import SandboxProcess

#: Workers are killed when this part of the posters is there.
KILLED_AT = (0.1, 0.25, 0.4)
#: Then sources behave again, and who waits because of them is asked once more.
CALMED_AT = 0.97
PATIENCE_SECONDS = 800.0
LOOK_SECONDS = 0.5
BATCH = 500
MEGABYTE = 1024 * 1024
#: What memory may grow by for other reasons, in all processes together.
SLACK = 5 * MEGABYTE
#: State and number of shows that a title of each kind ends with.
EXPECTED = {"exact": "found", "year": "found", "alias": "found", "ambiguous": "in_doubt", "absent": "not_found"}
LIVE = "SELECT count(*) FROM jobs WHERE substr(kind, 1, 10) = 'catalogue.' AND kind <> 'catalogue.remove'"
STORED = "SELECT count(*) FROM titles WHERE substr(poster_url, 1, 9) = '/posters/'"
MISSING = "SELECT count(*) FROM posters WHERE file IS NULL"
TITLES = "SELECT bangumi_id, poster_url, thumbnail_url, tmdb_id, tmdb_candidates, tmdb_looked_up_at FROM titles"
#: Everything is to be fetched and looked up as at first.
FORGOTTEN = (
    "UPDATE posters SET file = NULL, checksum = NULL, etag = NULL, last_modified = NULL, due_at = created_at",
    "UPDATE titles SET tmdb_id = NULL, tmdb_found_by = NULL, tmdb_candidates = NULL, tmdb_due_at = created_at",
)
#: A worker that gets no turn for a lease is rightly taken for dead, and then an address is fetched twice at a time: on
#: a busy machine that takes seconds.
SETTINGS = {
    "posters_at_once": "32", "titles_at_once": "32", "tmdb_per_second": "0", "sync_minutes": "0", "calendar_hours": "0",
    "lease_seconds": "10", "heartbeat_seconds": "1",
}  # fmt: skip


class CatalogueKills:
    """One database, one store and one sandbox, and everything that happens between them."""

    def __init__(self, folder: Path, database_url: str, sandbox: SandboxProcess, count: int) -> None:
        self._url = database_url
        self._sandbox = sandbox
        self._count = count
        self._truth = sandbox.titles()
        world = {
            "tmdb_api_key": sandbox.key, "tmdb_base_url": sandbox.tmdb_url,
            "tmdb_images_url": f"{sandbox.url}/tmdb-images", "bangumi_base_url": sandbox.bangumi_url,
            "bangumi_images_url": sandbox.bangumi_images_url,
        }  # fmt: skip
        self.processes = Processes(folder, database_url, sandbox, **SETTINGS, **world)
        #: Those that work on jobs: the server where it is alone.
        self._workers = [one for one in self.processes.all if one.name != "server"] or self.processes.all
        self._began_at = time.monotonic()
        #: What memory grew by, of what was fetched meanwhile: 1 when every poster is still there.
        self.kept = 0.0

    async def run(self) -> list[str]:
        """Let it all happen; return what is wrong in the end."""
        self.processes.start()
        for one in self.processes.all:
            await one.until_it_works()
        add_faults(self._sandbox)
        await self._bring_in()
        for number, part in enumerate(KILLED_AT):
            await self._until_stored(part)
            await self._kill(self._workers[number % len(self._workers)])
        await self._until_stored(CALMED_AT)
        await self._drain()
        wrong = self._reckon()
        await self._do_all_once_more()
        wrong += await self._sync_again()
        return wrong + self.processes.complaints

    async def _bring_in(self) -> None:
        titles = [_given(one) for one in self._truth]
        for start in range(0, len(titles), BATCH):
            answer = await self._ask("/v1/catalogue/titles/import", {"titles": titles[start : start + BATCH]})
            assert {one["result"] for one in answer["items"]} <= {"created", "unchanged"}, answer

    async def _kill(self, one: Killable) -> None:
        """Kill it in the middle of its work, and start it again at once."""
        one.kill()
        self._say(f"{one.name} was killed with {self._stored()} posters stored")
        one.start()
        await one.until_it_works()

    async def _drain(self) -> None:
        """Let sources be well again, and see to what rests because of them, as a patient operator would."""
        self._sandbox.clear_faults()
        resting = plain_sql(self._url, MISSING)[0][0]
        self._say(f"faults are over; {resting} posters missing")
        await self._until(lambda: not self._live(), "the end of all jobs")
        while plain_sql(self._url, MISSING)[0][0]:
            plain_sql(self._url, "UPDATE posters SET due_at = created_at WHERE file IS NULL")
            await self._ask("/v1/catalogue/sync")
            await self._until(lambda: not self._live(), "the end of one more sync")
        self._say("all is done")

    async def _do_all_once_more(self) -> None:
        """See what the memory of processes grows by that have done everything before, and so have what they need."""
        before = {one.name: resident(one) for one in self._workers}
        for statement in FORGOTTEN:
            plain_sql(self._url, statement)
        await self._ask("/v1/catalogue/sync")
        await self._until(lambda: not self._live(), "everything once more")
        assert plain_sql(self._url, MISSING)[0][0] == 0
        fetched = int(plain_sql(self._url, "SELECT sum(size) FROM posters")[0][0])
        grown = {one.name: resident(one) - before[one.name] for one in self._workers}
        told = ", ".join(f"{name} by {size / MEGABYTE:.1f} MB" for name, size in grown.items())
        self._say(f"memory has grown while {fetched / MEGABYTE:.1f} MB were fetched once more: {told}")
        self.kept = max(0, sum(grown.values()) - SLACK) / fetched

    async def _sync_again(self) -> list[str]:
        """Return what a second sync asked the world, which must be nothing."""
        self._sandbox.clear_calls()
        before = plain_sql(self._url, "SELECT * FROM titles ORDER BY id")
        await self._ask("/v1/catalogue/sync")
        await self._until(lambda: not self._live(), "the end of the second sync")
        asked = [f"the second sync asked for {call['path']}" for call in self._sandbox.calls()]
        if plain_sql(self._url, "SELECT * FROM titles ORDER BY id") != before:
            asked.append("the second sync changed titles")
        return asked

    # -- the reckoning -------------------------------------------------------------------------------------------

    def _reckon(self) -> list[str]:
        calls = self._sandbox.calls(route="image")
        self._say(f"{len(calls)} calls for pictures: {dict(Counter(call['status'] for call in calls))}")
        return [*self._wrong_files(), *self._wrong_titles(), *overlapping(calls)]

    def _wrong_files(self) -> list[str]:
        names = {poster_hash(one["cover_url"]) for one in self._truth}
        wanted = {f"{name}.jpg" for name in names} | {f"{name}-small.webp" for name in names}
        there = {path.name for path in (self.processes.storage / "posters").iterdir()}
        wrong = [f"{file} is missing" for file in sorted(wanted - there)]
        wrong += [f"{file} is too much" for file in sorted(there - wanted)]
        rows = plain_sql(self._url, "SELECT file, checksum FROM posters")
        if len(rows) != len(names):
            wrong.append(f"there are {len(rows)} posters, not {len(names)}")
        for file, checksum in rows:
            path = self.processes.storage / "posters" / str(file)
            if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
                wrong.append(f"{file} is not what its row says")
        return wrong

    def _wrong_titles(self) -> list[str]:
        rows = {row[0]: row[1:] for row in plain_sql(self._url, TITLES)}
        wrong = [] if len(rows) == self._count else [f"there are {len(rows)} titles, not {self._count}"]
        for one in self._truth:
            where, small, tmdb_id, candidates, looked_up_at = rows[one["bangumi_id"]]
            name = poster_hash(one["cover_url"])
            if (where, small) != (f"/posters/{name}.jpg", f"/posters/{name}-small.webp"):
                wrong.append(f"{one['bangumi_id']} has the poster {where}")
            state = "found" if tmdb_id else "in_doubt" if candidates else "not_found" if looked_up_at else "waiting"
            if (state, tmdb_id) != (EXPECTED[one["kind"]], one["tmdb_id"]):
                wrong.append(f"{one['bangumi_id']} ({one['kind']}) is {state} as {tmdb_id}, not {one['tmdb_id']}")
        return wrong

    # -- the rest ------------------------------------------------------------------------------------------------

    def _stored(self) -> int:
        return int(plain_sql(self._url, STORED)[0][0])

    def _live(self) -> int:
        return int(plain_sql(self._url, LIVE)[0][0])

    async def _until_stored(self, part: float) -> None:
        await self._until(lambda: self._stored() >= part * self._count, f"{part:.0%} of the posters")

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < give_up_at, f"{what} did not come: {self._stored()} stored, {self._live()} jobs"
            await asyncio.sleep(LOOK_SECONDS)

    async def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        now = datetime.now(UTC)
        token = mint(
            SECRET.encode(), ExpectedClaims(), user_id="root", role="admin", now=now, lifetime=timedelta(hours=1)
        )
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        content = json.dumps(body).encode() if body is not None else b""
        request = urllib.request.Request(self.processes.url + path, content, headers)  # noqa: S310 - our own server

        def send() -> Any:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own server
                return json.loads(answer.read())

        return await asyncio.to_thread(send)

    def _say(self, what: str) -> None:
        print(f"  {time.monotonic() - self._began_at:5.0f} s: {what}", flush=True)


def _given(one: dict[str, Any]) -> dict[str, Any]:
    names = {"title_japanese": one["names"]["ja"], "title_english": one["names"]["en"]}
    return {"bangumi_id": one["bangumi_id"], **names, "year": one["year"], "poster": one["cover_url"]}


def add_faults(sandbox: SandboxProcess) -> None:
    """Let sources misbehave by chance, seldom enough that three tries nearly always suffice."""
    sandbox.faults("status", status=500, route="image", probability=0.03)
    sandbox.faults("status", status=429, retry_after=1, route="image", probability=0.0005)
    sandbox.faults("drop", route="image", probability=0.02)
    sandbox.faults("truncated", route="image", probability=0.02)
    sandbox.faults("html", route="image", probability=0.02)
    sandbox.faults("status", status=503, provider="tmdb", route="discover", probability=0.03)
    sandbox.faults("status", status=503, provider="tmdb", route="search", probability=0.03)
    sandbox.faults("status", status=429, retry_after=1, provider="tmdb", route="discover", probability=0.003)
    sandbox.faults("status", status=429, retry_after=1, provider="tmdb", route="search", probability=0.003)
    sandbox.faults("drop", route="search", probability=0.01)


def overlapping(calls: list[dict[str, Any]]) -> list[str]:
    """Return where one address was fetched twice at the same time."""
    by_path: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for call in calls:
        by_path[call["path"]].append(call)
    found = []
    for path, same in by_path.items():
        same.sort(key=lambda call: call["monotonic"])
        found += [f"{path} was fetched twice at once" for one, next_one in pairwise(same) if _overlap(one, next_one)]
    return found


def _overlap(one: dict[str, Any], next_one: dict[str, Any]) -> bool:
    ended_at = one["monotonic_end"]
    return ended_at is None or next_one["monotonic"] < ended_at


def resident(one: Killable) -> int:
    """Return the bytes of memory that a process has."""
    lines = Path(f"/proc/{one.pid}/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def kill_catalogue(folder: Path, database_url: str, count: int) -> tuple[list[str], float]:
    """Do it all on one database; return what is wrong in the end, and what part of the posters stayed in memory."""
    with running_sandbox(titles=count, tmdb_limit="") as sandbox:
        kills = CatalogueKills(folder, database_url, sandbox, count)
        try:
            wrong = await kills.run()
            return wrong, kills.kept
        finally:
            kills.processes.end()
