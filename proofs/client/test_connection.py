from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from proofs.client.pages import BrowserTab, load, open_tab
from proofs.client.writing import Writer, assert_same_log, events_of, milliseconds_since, writing
from tests.api.stage import Api, token
from tests.wait import until

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route

    from tests.service.processes import Place

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def has_status(tab: BrowserTab, *statuses: str) -> bool:
    return await tab.status() in statuses


async def wait_for_status(tab: BrowserTab, *statuses: str) -> None:
    await until(lambda: has_status(tab, *statuses), " or ".join(statuses))


async def test_a_killed_server_is_found_again(either_place: Place, context: BrowserContext, origin: str) -> None:
    with either_place.server("--no-worker") as server:
        api = Api(either_place, server)
        tabs = [await open_tab(context, origin, server.url) for _ in range(2)]
        await wait_for_status(tabs[1], "live")
        with writing(api) as writer:
            await until(lambda: _more(writer), "events")
            server.stop(signal.SIGKILL)
            await wait_for_status(tabs[1], "reconnecting")
            with either_place.server("--no-worker"):
                started = time.perf_counter()
                await wait_for_status(tabs[1], "live")
                print(f"live {milliseconds_since(started):.0f} ms after the server was back")  # noqa: T201 - a figure
                reached = writer.written
                await until(lambda: _more(writer, reached + 20), "events")
                writer.stop()
                assert await assert_same_log(api, tabs) >= 40


async def _more(writer: Writer, number: int = 20) -> bool:
    return writer.written >= number


async def test_a_page_that_was_offline_catches_up_at_once(api: Api, context: BrowserContext, origin: str) -> None:
    tab = await open_tab(context, origin, api.server.url)
    await wait_for_status(tab, "live")
    went_at = int(time.time() * 1000)
    await context.set_offline(offline=True)
    await tab.run("client.signedIn()")  # whatever breaks the connection
    await wait_for_status(tab, "offline")
    for _ in range(5):
        api.conversation()
    since = await tab.run("client.connection.since")
    assert went_at <= since <= time.time() * 1000
    await context.set_offline(offline=False)
    await wait_for_status(tab, "live")
    assert await assert_same_log(api, [tab]) == 5


async def test_silence_is_a_lost_connection(api: Api, context: BrowserContext, origin: str) -> None:
    tab = await open_tab(context, origin, api.server.url, timing={"feed": {"patience": 300}})
    statuses = await tab.run("""() => new Promise((resolve) => {
        const seen = [];
        client.subscribe(({ connection }) => {
            if (seen.at(-1) !== connection.status) seen.push(connection.status);
            if (seen.length > 4) resolve(seen);
        });
    })""")
    assert set(statuses) == {"live", "reconnecting"}


async def test_a_cursor_the_server_does_not_know_means_a_new_snapshot(
    api: Api, context: BrowserContext, origin: str
) -> None:
    streams: list[Route] = []

    async def without_memory_at_first(route: Route) -> None:
        streams.append(route)
        if len(streams) > 1:
            await route.continue_()
            return
        body = 'event: reset\ndata: {"reason":"EVENTS_FORGOTTEN"}\n\n'
        headers = {"Content-Type": "text/event-stream", "Access-Control-Allow-Origin": "*"}
        await route.fulfill(body=body, headers=headers)

    asked: list[tuple[str, str]] = []
    context.on("request", lambda request: asked.append((request.method, urlsplit(request.url).path)))
    # The route stays: a request that comes while routes are taken away is not told of.
    await context.route("**/v1/events", without_memory_at_first)
    tab = await open_tab(context, origin, api.server.url)
    await wait_for_status(tab, "live")
    assert asked.count(("GET", "/v1/snapshot")) == 2, asked
    api.grant("ada", 3)
    await tab.page.wait_for_function("client.state.credits.available === 3")


async def test_a_token_that_ends_is_asked_for_again(api: Api, context: BrowserContext, origin: str) -> None:
    tab = await load(context, origin)
    begin = {"url": api.server.url, "userId": "ada", "token": "not-a-token"}
    await tab.run("(options) => begin(options)", begin)
    await wait_for_status(tab, "signed-out")
    assert await tab.run("tokenCalls") == [False, True]
    await tab.run("(fresh) => { token = fresh; client.signedIn(); }", token("ada"))
    await wait_for_status(tab, "live")


async def test_a_session_that_ends_goes_on_after_signing_in_from_another_tab(
    api: Api, context: BrowserContext, origin: str
) -> None:
    key = api.ask("POST", "/v1/keys", {"name": "a session"}).json
    tabs = [await load(context, origin) for _ in range(2)]
    for tab in tabs:
        await tab.run("(options) => begin(options)", {"url": api.server.url, "userId": "ada", "token": key["key"]})
        await until(tab.is_ready, "the state")
    with writing(api, pause=0.05):
        assert api.ask("DELETE", f"/v1/keys/{key['id']}").status < 300
        await tabs[0].run("client.signedIn()")  # connects anew; the server itself would look within a minute
        for tab in tabs:
            await wait_for_status(tab, "signed-out")
        # Only the second tab, which does not lead, gets a new token.
        await tabs[1].run("(fresh) => { token = fresh; client.signedIn(); }", token("ada"))
        for tab in tabs:
            await wait_for_status(tab, "live")
        assert await tabs[1].is_leading()
    await assert_same_log(api, tabs)


async def test_signing_in_while_a_refusal_is_on_its_way_is_not_lost(
    api: Api, context: BrowserContext, origin: str
) -> None:
    asked: list[Route] = []

    async def hold_the_second(route: Route) -> None:
        asked.append(route)
        if len(asked) != 2:
            await route.continue_()

    tab = await open_tab(context, origin, api.server.url)
    await wait_for_status(tab, "live")
    await context.route("**/v1/me", hold_the_second)
    await tab.run("token = 'over', client.signedIn()")
    await until(
        lambda: _asked([one.request.url for one in asked[1:]], f"{api.server.url}/v1/me"), "the second question"
    )
    await tab.run("(fresh) => { token = fresh; client.signedIn(); }", token("ada"))
    await asked[1].continue_()
    await wait_for_status(tab, "live")


async def test_nothing_of_the_user_before_reaches_the_next_one(api: Api, context: BrowserContext, origin: str) -> None:
    for number in range(4):
        api.grant("ada", 5)
        api.ask("POST", "/v1/conversations", {"title": f"Ada's {number}"})
    api.grant("bob", 7)
    tabs = [await open_tab(context, origin, api.server.url) for _ in range(3)]
    with writing(api, "ada"), writing(api, "bob"):
        switched = tabs[0]  # the leader
        assert await switched.is_leading()
        result = await switched.run(
            """(fresh) => {
                window.seen = [];
                client.switchUser({ userId: "bob", token: () => fresh });
                log.length = 0;
                window.begun = null;
                const empty = client.state;
                client.subscribe((state) => seen.push(...state.conversations.map(({ title }) => title)));
                return [empty.ready, Object.keys(empty.tasks).length, empty.conversations.length];
            }""",
            token("bob"),
        )
        assert result == [False, 0, 0]
        await until(switched.is_ready, "bob's state")
        await until(lambda: _has_events(switched, 20), "bob's events")
        await until(lambda: _has_events(tabs[1], 20), "ada's events")
    assert await switched.run("seen.filter((title) => title.startsWith('Ada'))") == []
    await assert_same_log(api, [switched], "bob")
    await assert_same_log(api, tabs[1:], "ada")
    assert not set(await switched.log()) & set(events_of(api, "ada"))


async def _has_events(tab: BrowserTab, number: int) -> bool:
    return len(await tab.log()) >= number


async def test_a_token_of_another_user_is_not_believed(api: Api, context: BrowserContext, origin: str) -> None:
    # In another tab somebody else has logged in, and the application's token is theirs now.
    tab = await open_tab(context, origin, api.server.url)
    await wait_for_status(tab, "live")
    await tab.run("(other) => { token = other; client.signedIn(); }", token("bob"))
    with writing(api, "bob") as writer:
        await wait_for_status(tab, "signed-out")
        await until(lambda: _more(writer), "events")
    assert await tab.log() == []


async def test_a_token_switched_underneath_tells_and_sends_nothing_of_one_user_as_the_other(
    api: Api, context: BrowserContext, origin: str
) -> None:
    for user in ("ada", "bob"):
        api.grant(user)
    mine = api.generate().json["id"]
    bobs = token("bob")
    as_bob: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("authorization") == f"Bearer {bobs}":
            as_bob.append(urlsplit(request.url).path)

    context.on("request", note)
    tabs = [await open_tab(context, origin, api.server.url) for _ in range(2)]
    for tab in tabs:
        await wait_for_status(tab, "live")
        # Somebody else has logged in elsewhere, and nobody has told this page.
        await tab.run("(other) => { window.own = token; token = other; }", bobs)
    theirs = api.generate(user="bob").json["id"]
    # The leader wants to know more of this one, and has only Bob's token to ask with.
    new = api.generate().json["id"]
    for tab in tabs:
        await wait_for_status(tab, "signed-out")
        submit = "client.actions.submitImage({ model: 'nano-banana', prompt: 'mine' }).catch(({ code }) => code)"
        assert await tab.run(submit) == "OTHER_USER"
        assert await tab.run("client.actions.resume().then((all) => all.length > 0)")
        shown = await tab.run("Object.keys(client.state.tasks)")
        assert mine in shown
        assert theirs not in shown
    assert set(as_bob) == {"/v1/me"}
    assert len(as_bob) <= 2  # once for each tab
    assert api.sql("SELECT count(*) FROM tasks WHERE user_id = 'bob'") == [(1,)]
    for tab in tabs:
        await tab.run("token = own, client.signedIn()")
    for tab in tabs:
        await wait_for_status(tab, "live")
        await tab.page.wait_for_function("longtake.unfinished(client.state).length === 4")
        assert new in await tab.run("Object.keys(client.state.tasks)")
        await tab.page.wait_for_function("client.state.submitting.length === 0")
    assert set(as_bob) == {"/v1/me"}


async def test_a_renewed_token_is_asked_for_its_owner_and_no_more(
    api: Api, context: BrowserContext, origin: str
) -> None:
    asked: list[str] = []
    tab = await open_tab(context, origin, api.server.url)
    await wait_for_status(tab, "live")
    context.on("request", lambda request: asked.append(urlsplit(request.url).path))
    fresh = api.ask("POST", "/v1/keys", {"name": "a session"}).json["key"]
    await tab.run("(fresh) => { token = fresh; client.signedIn(); }", fresh)
    await until(lambda: _asked(asked, "/v1/events"), "the stream")
    await wait_for_status(tab, "live")
    assert sorted(set(asked)) == ["/v1/events", "/v1/me"]


async def _asked(paths: list[str], path: str) -> bool:
    return path in paths


async def test_a_place_in_a_queue_moves_with_the_heartbeat(api: Api, context: BrowserContext, origin: str) -> None:
    api.grant()
    first, second = (api.generate().json["id"] for _ in range(2))
    beats: list[str] = []

    async def beating(route: Route) -> None:
        cursor = route.request.headers.get("last-event-id", "")
        frames = [f'event: {kind}\ndata: {{"cursor":"{cursor}"}}\n\n' for kind in ("ready", "heartbeat")]
        headers = {"Content-Type": "text/event-stream", "Access-Control-Allow-Origin": "*"}
        beats.append(cursor)
        await route.fulfill(body="".join(frames), headers=headers)

    # A stream that never tells of anything but that it lives.
    await context.route("**/v1/events", beating)
    tab = await open_tab(context, origin, api.server.url)
    place = "(id) => client.state.tasks[id].queue.position"
    assert await tab.run(place, second) == 2
    api.ask("POST", f"/v1/tasks/{first}/cancel")
    await tab.page.wait_for_function(f"(id) => ({place})(id) === 1", arg=second)
    assert beats


async def test_a_stopped_client_says_nothing_more(api: Api, context: BrowserContext, origin: str) -> None:
    tab = await open_tab(context, origin, api.server.url)
    await wait_for_status(tab, "live")
    api.grant("ada", 1)
    await until(lambda: _has_events(tab, 1), "the grant")
    assert await tab.run("client.stop(), client.state.ready") is False
    other = await open_tab(context, origin, api.server.url)
    await until(other.is_leading, "the lead")
    api.grant("ada", 1)
    await until(lambda: _has_events(other, 1), "the grant")
    assert len(await tab.log()) == 1
    await tab.run("begun = null, log.length = 0, client.start()")
    await until(tab.is_ready, "the state")
    assert await tab.run("client.state.credits.available") == 2
