"""Bringing in files of one's own: over HTTP, by lists, at once and twice; listing them and trying again."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from sqlalchemy import text

from longtake import Engine
from longtake.adapters.net import HttpClient
from longtake.capabilities.media.imports import ImportRequest, Imports, likely_kind, read_import
from longtake.capabilities.media.mirror import MIRROR_LANE, Mirror
from longtake.capabilities.media.routes import Media, build_routes
from longtake.capabilities.media.thumbnails import THUMBNAIL_LANE
from longtake.capability import AssetOwner
from longtake.clock import SystemClock
from longtake.engine.kinds import JobKind
from longtake.engine.outcomes import Done
from longtake.errors import ImportFileInvalid
from longtake.server.web import create_web
from longtake.services.assets import THUMBNAIL, AssetLinks, NewAsset, register_asset
from tests.accounts.stage import serving
from tests.assets.service import SECRET, Answer, token
from tests.http_server import answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longtake import Database, Job, Outcome
    from longtake.adapters.storage import Storage
    from tests.assets.stage import Stage

MOST = 5
URL = "https://example.com/fox.mp4"


async def _done(_job: Job) -> Outcome:
    return Done()


class Service:
    """The routes behind a real server, with a limit of five files under way."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self.database = database
        mirror = Mirror(database, storage, HttpClient(), most_bytes=1_000_000).kind()
        thumbnail = JobKind(THUMBNAIL, _done, lane=THUMBNAIL_LANE.name)
        self.engine = Engine(database, [mirror, thumbnail], [MIRROR_LANE, THUMBNAIL_LANE])
        self.storage = storage
        self.imports = Imports(database, HttpClient(), MOST)
        self.links = AssetLinks(storage, lambda: SECRET, "", SystemClock())
        self.url = ""
        self._client: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        await self.engine.start()
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        media = Media(
            self.database,
            self.engine,
            self.storage,
            self.links,
            self.imports,
            AssetOwner(),
            100_000,
        )
        routes = build_routes(media)
        program = create_web(
            replace(serving(self.engine), capabilities=[routes]), allowed_hosts=[], upload_bytes=100_000
        )
        async with answering(program, listener), aiohttp.ClientSession() as self._client:
            yield self

    async def ask(self, method: str, path: str, content: Any = None, *, user: str = "alice") -> Answer:
        assert self._client is not None
        headers = {"Authorization": f"Bearer {token(user)}", "Content-Type": "application/json"}
        body = None if content is None else orjson.dumps(content)
        async with self._client.request(method, self.url + path, data=body, headers=headers) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.read())

    async def add(self, url: str = URL, user: str = "alice", **more: Any) -> Answer:
        return await self.ask("POST", "/v1/assets", {"url": url, **more}, user=user)

    async def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        found = await self.database.run(lambda tx: [*map(tuple, tx.execute(text(statement), values))])
        return list(found)

    async def change(self, statement: str, **values: Any) -> None:
        await self.database.run(lambda tx: tx.execute(text(statement), values).rowcount)

    async def jobs(self, asset_id: str) -> list[str]:
        found = await self.rows("SELECT kind FROM jobs WHERE subject = :subject ORDER BY kind", subject=asset_id)
        return [kind.removeprefix("assets.") for (kind,) in found]


@pytest.fixture
async def service(database: Database, folder_storage: Storage) -> AsyncIterator[Service]:
    async with Service(database, folder_storage).running() as running:
        yield running


def assert_refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.json["code"]) == (status, code), answer.body
    assert answer.json["detail"]


async def test_a_file_is_brought_in_and_both_jobs_begin(service: Service) -> None:
    answer = await service.add(title="A fox")
    assert answer.status == 201
    asset = answer.json
    assert (asset["role"], asset["kind"], asset["title"], asset["url"]) == ("import", "video", "A fox", URL)
    assert (asset["save_state"], asset["thumbnail_state"]) == ("pending", "pending")
    assert await service.jobs(asset["id"]) == ["mirror", "thumbnail"]
    events = await service.rows("SELECT type FROM events WHERE subject = :subject", subject=asset["id"])
    assert ("asset.added",) in events


async def test_the_same_address_is_the_same_asset_but_each_users_own(service: Service) -> None:
    first = await service.add()
    again = await service.add(title="Another title")
    other = await service.add(user="bob")
    assert (first.status, again.status, other.status) == (201, 200, 201)
    assert first.json["id"] == again.json["id"] != other.json["id"]
    assert await service.rows("SELECT count(*) FROM assets") == [(2,)]
    # Also when it was given up long ago: `retry` is how to try again.
    await service.change("UPDATE assets SET mirror_state = 'failed'")
    assert (await service.add()).json["id"] == first.json["id"]


async def test_many_at_once_with_one_address_make_one_asset(service: Service) -> None:
    answers = await asyncio.gather(*(service.add() for _ in range(10)))
    assert sorted(one.status for one in answers) == [200] * 9 + [201]
    assert len({one.json["id"] for one in answers}) == 1
    assert await service.rows("SELECT count(*) FROM jobs") == [(2,)]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/fox.mp4", "ADDRESS_REFUSED"),
        ("file:///etc/passwd", "ADDRESS_REFUSED"),
        ("fox.mp4", "ADDRESS_REFUSED"),
        ("http://127.0.0.1/fox.mp4", "ADDRESS_REFUSED"),
        ("http://10.0.0.8/fox.mp4", "ADDRESS_REFUSED"),
        ("http://169.254.169.254/latest/meta-data", "ADDRESS_REFUSED"),
        ("http://[::ffff:169.254.169.254]/", "ADDRESS_REFUSED"),
        ("http://2130706433/fox.mp4", "ADDRESS_REFUSED"),
        ("https://user:secret@example.com/fox.mp4", "ADDRESS_REFUSED"),
        ("https://example.com/" + "x" * 8_000, "TEXT_INVALID"),
        ("https://example.com/\u0000", "TEXT_INVALID"),
        ("", "TEXT_INVALID"),
    ],
)
async def test_what_can_never_be_fetched_is_refused_at_once(service: Service, url: str, code: str) -> None:
    assert_refused(await service.add(url), 422, code)
    assert await service.rows("SELECT id FROM assets") == []


@pytest.mark.parametrize("body", [{}, {"url": 1}, {"url": URL, "kind": "song"}, {"url": URL, "key": "results/x"}])
async def test_a_body_that_is_not_understood_is_refused(service: Service, body: Any) -> None:
    assert_refused(await service.ask("POST", "/v1/assets", body), 422, "REQUEST_INVALID")
    assert_refused(await service.ask("POST", "/v1/assets", []), 400, "JSON_INVALID")


async def test_a_title_has_its_limits(service: Service) -> None:
    assert_refused(await service.add(title="x" * 501), 422, "TEXT_INVALID")
    assert_refused(await service.add(title="bell\u0007"), 422, "TEXT_INVALID")


async def test_so_many_may_be_under_way_and_no_more(service: Service) -> None:
    answers = await asyncio.gather(*(service.add(f"{URL}?{number}") for number in range(MOST + 3)))
    assert sorted(one.status for one in answers) == [201] * MOST + [429] * 3
    assert_refused(await service.add("https://example.com/one-more.mp4"), 429, "IMPORTS_TOO_MANY")
    there = next(one.json["url"] for one in answers if one.status == 201)
    assert (await service.add(there)).status == 200
    assert (await service.add(user="bob")).status == 201
    await service.change("UPDATE assets SET mirror_state = 'failed' WHERE user_id = 'alice'")
    assert (await service.add("https://example.com/one-more.mp4")).status == 201


async def test_many_go_in_with_one_request_and_bad_ones_keep_no_other_out(service: Service) -> None:
    files = [{"url": URL}, {"url": "http://10.0.0.1/"}, {"url": "https://example.com/owl.PNG?x=1"}, {"url": URL}]
    answer = await service.ask("POST", "/v1/assets/import", {"assets": files})
    assert answer.status == 200
    items = answer.json["items"]
    assert [one["added"] for one in items] == [True, False, True, False]
    assert [one["refused"] and one["refused"]["code"] for one in items] == [None, "ADDRESS_REFUSED", None, None]
    assert items[0]["asset"]["id"] == items[3]["asset"]["id"]
    assert items[2]["asset"]["kind"] == "image"
    more = [{"url": f"{URL}?{number}"} for number in range(4)]
    items = (await service.ask("POST", "/v1/assets/import", {"assets": more})).json["items"]
    assert [one["refused"] and one["refused"]["code"] for one in items] == [None, None, None, "IMPORTS_TOO_MANY"]
    for count in (0, 101):
        assert_refused(
            await service.ask("POST", "/v1/assets/import", {"assets": [{"url": URL}] * count}), 422, "REQUEST_INVALID"
        )


async def test_ones_own_are_listed_newest_first_page_by_page(service: Service) -> None:
    made = [(await service.add(f"{URL}?{number}")).json["id"] for number in range(4)]
    await service.add(user="bob")
    # A row of an application's own, whose id says nothing about its time.
    outside = "00000000-0000-4000-8000-000000000000"
    await service.change(
        "INSERT INTO assets (id, user_id, role, kind, source_url, status) VALUES"
        f" ('{outside}', 'alice', 'import', 'image', 'https://example.com/a.png', 'completed')"
    )
    first = (await service.ask("GET", "/v1/assets?limit=3")).json
    rest = (await service.ask("GET", f"/v1/assets?limit=3&before={first['next']}")).json
    assert [one["id"] for one in first["assets"] + rest["assets"]] == [outside, *reversed(made)]
    assert rest["next"] is None


async def test_lists_are_filtered(service: Service) -> None:
    video = (await service.add()).json["id"]
    image = (await service.add("https://example.com/owl.png")).json["id"]
    result = await service.database.run(
        register_asset, NewAsset(user_id="alice", kind="image", source_url="https://example.com/result.png")
    )
    await service.change("UPDATE assets SET mirror_state = 'failed' WHERE id = :id", id=image)

    async def listed(query: str) -> set[str]:
        return {one["id"] for one in (await service.ask("GET", f"/v1/assets?{query}")).json["assets"]}

    assert await listed("") == {video, image, result}
    assert await listed("role=import") == {video, image}
    assert await listed("kind=image") == {image, result}
    assert await listed("state=failed") == {image}
    assert await listed("state=pending&role=import") == {video}
    assert await listed("state=success") == set()
    for query in ("role=mine", "kind=song", "state=done", "limit=0", "limit=201"):
        assert_refused(await service.ask("GET", f"/v1/assets?{query}"), 422, "REQUEST_INVALID")
    assert_refused(await service.ask("GET", "/v1/assets?before=yesterday"), 422, "CURSOR_INVALID")


async def test_what_failed_is_tried_again_and_nothing_else(service: Service) -> None:
    asset = (await service.add()).json["id"]
    retry = f"/v1/assets/{asset}/retry"
    await service.change("DELETE FROM jobs")
    await service.change(
        "UPDATE assets SET mirror_state = 'failed', mirror_error = 'A: b',"
        " thumbnail_state = 'failed', thumbnail_error = 'C: d'"
    )
    assert_refused(await service.ask("POST", retry, user="bob"), 404, "NOT_FOUND")
    assert await service.jobs(asset) == []
    answer = await service.ask("POST", retry)
    assert (answer.status, answer.json["save_state"], answer.json["thumbnail_state"]) == (202, "pending", "pending")
    assert await service.jobs(asset) == ["mirror", "thumbnail"]
    assert (await service.ask("POST", retry, {})).status == 202
    assert await service.jobs(asset) == ["mirror", "thumbnail"]
    await service.change("DELETE FROM jobs")
    await service.change(
        "UPDATE assets SET thumbnail_state = 'completed', thumbnail_key = 't', mirror_state = 'failed'"
    )
    await service.ask("POST", retry)
    assert await service.jobs(asset) == ["mirror"]


async def test_a_copy_that_is_here_is_made_again_only_by_force(service: Service) -> None:
    asset = (await service.add()).json["id"]
    await service.change("DELETE FROM jobs")
    await service.change(
        "UPDATE assets SET mirror_state = 'completed', key = 'k', thumbnail_state = 'completed', thumbnail_key = 't'"
    )
    await service.change("DELETE FROM jobs")
    assert (await service.ask("POST", f"/v1/assets/{asset}/retry")).json["save_state"] == "success"
    assert await service.jobs(asset) == []
    forced = await service.ask("POST", f"/v1/assets/{asset}/retry", {"force": True})
    assert (forced.status, forced.json["save_state"]) == (202, "pending")
    assert await service.jobs(asset) == ["mirror"]


async def test_a_redirect_into_our_own_network_is_refused_when_the_file_is_fetched(stage: Stage) -> None:
    async def inside(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data.mp4"})

    stage.source.files["/fox.mp4"] = inside
    asset_id = await stage.register("/fox.mp4", "video", role="import", source_expires_in=None)
    await stage.try_once()
    asset = await stage.asset(asset_id)
    assert (asset.mirror_error or "").startswith("ADDRESS_REFUSED: ")
    assert asset.key is None


def test_the_kind_follows_from_the_address() -> None:
    assert likely_kind("https://example.com/A.JPEG?name=x.mp4") == "image"
    assert likely_kind("https://example.com/a.mp4#x.png") == "video"
    assert likely_kind("https://example.com/png") == "video"


# -- lists -----------------------------------------------------------------------------------------------------------


def test_good_rows_are_read_and_bad_ones_told_by_line() -> None:
    lines = [
        "Title, URL ,kind\r\n",
        '"A fox, red",https://example.com/fox.mp4,Video\r\n',
        "\r\n",
        "No address,,\r\n",
        "Song,https://example.com/a.mp3,song\r\n",
        "Elsewhere,ftp://example.com/a.mp4,\r\n",
        "Too,https://example.com/b.mp4,image,many\r\n",
        '"Two\r\n',
        'lines",https://example.com/c.mp4\r\n',
        f"Long,https://example.com/{'x' * 8000},\r\n",
        f"{'x' * 501},https://example.com/d.mp4,\r\n",
        'Broken "quote" x,"https://example.com/e.mp4"x,\r\n',
        "Last,https://example.com/f.png,image",
    ]
    found = read_import(lines)
    assert [(one.number, one.request) for one in found.lines] == [
        (2, ImportRequest("https://example.com/fox.mp4", "video", "A fox, red")),
        (9, ImportRequest("https://example.com/c.mp4", None, "Two\r\nlines")),
        (13, ImportRequest("https://example.com/f.png", "image", "Last")),
    ]
    assert [number for number, _reason in found.bad] == [4, 5, 6, 7, 10, 11, 12]
    assert all(reason.endswith(".") for _number, reason in found.bad)


@pytest.mark.parametrize("first", ["", "https://example.com/fox.mp4", "title,kind", "url,colour", "url,url", '"url'])
def test_a_list_without_its_header_is_refused(first: str) -> None:
    with pytest.raises(ImportFileInvalid):
        read_import([first + "\n", "https://example.com/fox.mp4\n"] if first else [])
