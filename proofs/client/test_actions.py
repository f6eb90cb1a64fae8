from __future__ import annotations

import base64
import socket
from typing import TYPE_CHECKING, Any

import pytest

from proofs.client.pages import BrowserTab, load, open_tab
from tests.api.stage import Api, picture, token
from tests.wait import until

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUBMIT = "client.actions.submitImage({ model: 'nano-banana', prompt: 'a red fox' })"
#: Begins and does not wait: the page may be gone before there is an answer.
BEGIN_SUBMIT = f"{SUBMIT}.catch(() => 0) && 0"
REFUSED = (
    """(action) => action().then(() => null, (error) => ({ ...error, message: error.message, name: error.name }))"""
)


def count_tasks(api: Api, user: str = "ada") -> int:
    return int(api.sql(f"SELECT count(*) FROM tasks WHERE user_id = '{user}'")[0][0])


async def refusal(tab: BrowserTab, action: str) -> Any:
    return await tab.run(f"({REFUSED})(() => {action})")


async def has_none_pending(tab: BrowserTab) -> bool:
    return bool(await tab.run("client.actions.pendingActions().length === 0"))


async def test_a_submit_is_shown_while_it_is_sent_and_then_as_a_task_in_every_tab(
    api: Api, context: BrowserContext, origin: str
) -> None:
    api.grant()
    tabs = [await open_tab(context, origin, api.server.url) for _ in range(2)]
    found = await tabs[1].run(
        f"""async () => {{
            const sending = {SUBMIT};
            const [shown] = client.state.submitting;
            const task = await sending;
            return [shown.action, shown.content.prompt, task.id, client.state.tasks[task.id].prompt];
        }}"""
    )
    assert (found[0], found[1], found[3]) == ("image", "a red fox", "a red fox")
    for tab in tabs:
        await tab.page.wait_for_function("(id) => client.state.tasks[id]?.prompt === 'a red fox'", arg=found[2])
        await tab.page.wait_for_function("client.state.submitting.length === 0")
        await tab.page.wait_for_function("client.state.credits.held > 0")
        assert await tab.run("longtake.unfinished(client.state).length") == 1
    cancelled = await tabs[0].run("(id) => client.actions.cancel(id)", found[2])
    assert cancelled["status"] == "cancelled"
    for tab in tabs:
        await tab.page.wait_for_function("longtake.recentlyEnded(client.state)[0]?.status === 'cancelled'")
        await tab.page.wait_for_function("client.state.credits.held === 0")
    again = await tabs[0].run("(id) => client.actions.retry(id)", found[2])
    assert again["retry_of"] == found[2]
    assert count_tasks(api) == 2


async def test_a_task_of_another_device_is_asked_for(api: Api, context: BrowserContext, origin: str) -> None:
    api.grant()
    tab = await open_tab(context, origin, api.server.url)
    made = api.generate({"prompt": "a fox from elsewhere", "parameters": {}}).json
    await tab.page.wait_for_function("(id) => client.state.tasks[id]?.credits?.state === 'held'", arg=made["id"])
    assert await tab.run("(id) => client.state.tasks[id].partial", made["id"]) is None


@pytest.mark.parametrize("arrived", [True, False], ids=["the server had it", "the server never had it"])
async def test_a_submit_survives_a_page_that_dies_before_the_answer(
    api: Api, context: BrowserContext, origin: str, arrived: bool
) -> None:
    api.grant()
    keys: list[str] = []

    with socket.create_server(("127.0.0.1", 0)) as silent:

        async def swallow(route: Route) -> None:
            if arrived:
                await route.fetch()
            keys.append(route.request.headers["idempotency-key"])
            # Not left undecided: a browser that closes a page lets such a request go on to the server now and then.
            await route.continue_(url=f"http://127.0.0.1:{silent.getsockname()[1]}/")

        await context.route("**/v1/images/generate", swallow)
        tab = await open_tab(context, origin, api.server.url)
        await tab.run(BEGIN_SUBMIT)
        await until(lambda: _any(keys), "the request")
        await tab.page.close()
    assert count_tasks(api) == int(arrived)

    async def let_pass(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        await route.continue_()

    await context.route("**/v1/images/generate", let_pass)
    tab = await open_tab(context, origin, api.server.url)
    await until(lambda: has_none_pending(tab), "the answer")
    assert (len(keys), len(set(keys))) == (2, 1)
    await tab.page.wait_for_function("longtake.unfinished(client.state).length === 1")
    assert count_tasks(api) == 1
    assert api.balance()[1] > 0


async def _any(found: list[Any]) -> bool:
    return bool(found)


async def test_another_user_does_not_send_what_the_one_before_began(
    api: Api, context: BrowserContext, origin: str
) -> None:
    api.grant("ada")
    api.grant("bob")
    await context.route("**/v1/images/generate", lambda route: route.abort())
    tab = await open_tab(context, origin, api.server.url)
    await tab.run(BEGIN_SUBMIT)
    await tab.page.wait_for_function("client.state.submitting.length === 1")
    await tab.page.close()
    await context.unroute("**/v1/images/generate")
    bobs = await open_tab(context, origin, api.server.url, "bob")
    assert await has_none_pending(bobs)
    assert (count_tasks(api, "ada"), count_tasks(api, "bob")) == (0, 0)
    adas = await open_tab(context, origin, api.server.url)
    await adas.page.wait_for_function("longtake.unfinished(client.state).length === 1")
    assert (count_tasks(api, "ada"), count_tasks(api, "bob")) == (1, 0)


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(
    api: Api, context: BrowserContext, origin: str
) -> None:
    api.grant()
    keys: list[str] = []

    async def lose(route: Route) -> None:
        if route.request.method == "POST":
            keys.append(route.request.headers["idempotency-key"])
            if len(keys) == 1:
                await route.abort()
                return
            if len(keys) == 2:
                await route.fetch()
                await route.abort()
                return
        await route.continue_()

    await context.route("**/v1/images/generate", lose)
    tab = await open_tab(context, origin, api.server.url)
    task = await tab.run(SUBMIT)
    assert (len(keys), len(set(keys)), count_tasks(api)) == (3, 1, 1)
    assert api.sql("SELECT id FROM tasks")[0][0] == task["id"]


async def test_a_refusal_says_what_the_server_says_and_is_not_sent_again(
    api: Api, context: BrowserContext, origin: str
) -> None:
    tab = await open_tab(context, origin, api.server.url)
    error = await refusal(tab, SUBMIT)
    assert (error["name"], error["status"], error["code"]) == ("LongtakeError", 402, "INSUFFICIENT_CREDITS")
    assert error["message"].endswith(".")
    assert error["requestId"]
    assert error["members"]["price"] > 0
    assert await has_none_pending(tab)
    other = await refusal(tab, "client.actions.cancel('0199c1f2-7a40-7cc3-98c4-dc0c0c07398f')")
    assert (other["status"], other["code"]) == (404, "NOT_FOUND")


async def test_a_server_that_lacks_something_is_not_asked_for_ever(
    api: Api, context: BrowserContext, origin: str
) -> None:
    api.grant()
    tab = await open_tab(context, origin, api.server.url)
    # 503 as well, but nothing that passes: there is no key for this provider.
    error = await refusal(tab, SUBMIT.replace("nano-banana", "gemini-flash-image"))
    assert (error["status"], error["code"]) == (503, "PROVIDER_NOT_CONFIGURED")
    assert await has_none_pending(tab)


async def test_a_submit_without_a_valid_token_waits_for_the_next_one(
    api: Api, context: BrowserContext, origin: str
) -> None:
    api.grant()
    tab = await open_tab(context, origin, api.server.url)
    await tab.run("token = 'not-a-token'")
    error = await refusal(tab, SUBMIT)
    assert error["status"] == 401
    assert await tab.run("client.actions.pendingActions().length") == 1
    await tab.run("(fresh) => { token = fresh; client.signedIn(); }", token("ada"))
    await tab.page.wait_for_function("longtake.unfinished(client.state).length === 1")
    assert count_tasks(api) == 1


@pytest.mark.parametrize("storage", ["null", "{ getItem() { return '[{'; }, setItem() { throw new Error('full'); } }"])
async def test_a_browser_that_stores_nothing_still_submits(
    api: Api, context: BrowserContext, origin: str, storage: str
) -> None:
    api.grant()
    tab = await load(context, origin)
    script = f"(options) => begin({{ ...options, storage: {storage} }})"
    await tab.run(script, {"url": api.server.url, "userId": "ada", "token": token("ada")})
    await until(tab.is_ready, "the state")
    await tab.run(SUBMIT)
    assert await has_none_pending(tab)
    assert count_tasks(api) == 1


async def test_what_is_older_than_the_servers_memory_is_not_sent_again(
    api: Api, context: BrowserContext, origin: str
) -> None:
    tab = await load(context, origin)
    found = await tab.run("""async () => {
        const { PendingActions } = await import("/client/pending.js");
        const pending = new PendingActions(localStorage, "longtake x");
        pending.add({ key: "old", action: "image", path: "/", content: {}, at: Date.now() - 86_400_000 });
        pending.add({ key: "new", action: "image", path: "/", content: {}, at: Date.now() });
        const keys = pending.all().map(({ key }) => key);
        pending.remove("new");
        const left = Object.keys(localStorage);
        localStorage.setItem("somebody's own", "kept");
        new PendingActions(localStorage, "longtake another user");
        return [keys, left, Object.keys(localStorage)];
    }""")
    assert found == [["new"], ["longtake x pending old"], ["somebody's own"]]


async def test_tabs_that_write_at_the_same_time_lose_nothing(context: BrowserContext, origin: str) -> None:
    tab = await load(context, origin)
    found = await tab.run("""async () => {
        const { PendingActions } = await import("/client/pending.js");
        const made = (key, at) => ({ key, action: "image", path: "/", content: {}, at: Date.now() + at });
        // The other tab writes between this one's reading and writing.
        const other = new PendingActions(localStorage, "longtake x");
        const slow = {
            getItem: (name) => localStorage.getItem(name),
            key: (number) => localStorage.key(number),
            get length() { return localStorage.length; },
            setItem: (name, value) => { other.add(made("other", 1)); localStorage.setItem(name, value); },
            removeItem: (name) => { other.add(made("last", 2)); localStorage.removeItem(name); },
        };
        const one = new PendingActions(slow, "longtake x");
        one.add(made("one", 0));
        const both = other.all().map(({ key }) => key);
        one.remove("one");
        return [both, other.all().map(({ key }) => key)];
    }""")
    assert found == [["one", "other"], ["other", "last"]]


async def test_what_is_submitted_after_the_end_is_refused_and_never_sent(
    api: Api, context: BrowserContext, origin: str
) -> None:
    api.grant()
    tab = await open_tab(context, origin, api.server.url)
    await tab.run("window.old = client.actions, client.stop()")
    error = await refusal(tab, SUBMIT.replace("client.actions", "old"))
    assert error["code"] == "STOPPED"
    assert await tab.run("Object.keys(localStorage)") == []


@pytest.mark.parametrize("body", ["null", "17", "[]", "<html>"])
async def test_an_answer_that_is_no_problem_of_ours_is_an_error_all_the_same(
    context: BrowserContext, origin: str, body: str
) -> None:
    tab = await load(context, origin)
    script = """async (body) => {
        const { errorOf } = await import("/client/errors.js");
        const { name, status, code, members } = await errorOf(new Response(body, { status: 500 }));
        return [name, status, code, members];
    }"""
    assert await tab.run(script, body) == ["LongtakeError", 500, "HTTP_500", {}]


async def test_servers_under_one_origin_have_names_of_their_own(context: BrowserContext, origin: str) -> None:
    tab = await load(context, origin)
    script = """async (urls) => {
        const { nameOf } = await import("/client/names.js");
        return urls.map((url) => nameOf(url, "ada"));
    }"""
    one, same, other, root = await tab.run(script, ["https://x.example/a", "https://x.example/a/", "/b", "/"])
    assert one == same
    assert len({one, other, root}) == 3


async def test_conversations_messages_and_references(api: Api, context: BrowserContext, origin: str) -> None:
    api.grant()
    tabs = [await open_tab(context, origin, api.server.url) for _ in range(2)]
    made = await tabs[0].run("client.actions.beginConversation('Foxes')")
    for tab in tabs:
        await tab.page.wait_for_function("client.state.conversations[0]?.title === 'Foxes'")
    await tabs[1].run("(id) => client.actions.renameConversation(id, 'Red foxes')", made["id"])
    for tab in tabs:
        await tab.page.wait_for_function("client.state.conversations[0]?.title === 'Red foxes'")
    wish = {"model": "nano-banana", "prompt": "a fox", "conversation_id": made["id"]}
    task = await tabs[0].run("(wish) => client.actions.submitImage(wish)", wish)
    await tabs[0].run("(id) => client.actions.say(id, 'hello')", made["id"])
    said = await tabs[0].run("(id) => client.actions.messages(id, { limit: 10 })", made["id"])
    assert [one["role"] for one in said["messages"]] == ["user", "assistant", "user"]
    assert (await tabs[0].run("client.actions.tasks({ limit: 5 })"))["tasks"][0]["id"] == task["id"]
    assert (await tabs[0].run("client.actions.conversations()"))["conversations"][0]["id"] == made["id"]
    assert (await tabs[0].run("(id) => client.actions.markRead(id)", made["id"]))["unread"] == 0
    upload = """async (encoded) => {
        const bytes = Uint8Array.from(atob(encoded), (one) => one.charCodeAt(0));
        return client.actions.uploadReference(new Blob([bytes], { type: "image/png" }));
    }"""
    reference = await tabs[0].run(upload, base64.b64encode(picture()).decode())
    assert (reference["role"], reference["width"]) == ("reference", 64)
    error = await refusal(tabs[0], f"client.actions.retrySave('{task['id']}')")
    assert error["code"] == "STATE_CONFLICT"
    error = await refusal(tabs[0], f"client.actions.deleteConversation('{made['id']}')")
    assert error["code"] == "STATE_CONFLICT"
    await tabs[0].run("(id) => client.actions.cancel(id)", task["id"])
    await tabs[0].run("(id) => client.actions.deleteTask(id)", task["id"])
    await tabs[0].run("(id) => client.actions.deleteConversation(id)", made["id"])
    for tab in tabs:
        await tab.page.wait_for_function("client.state.conversations.length === 0")
        await tab.page.wait_for_function("(id) => client.state.tasks[id] === undefined", arg=task["id"])


async def test_the_hook_reads_the_state_and_hears_of_changes(api: Api, context: BrowserContext, origin: str) -> None:
    tab = await open_tab(context, origin, api.server.url)
    await tab.run("""async () => {
        const { hookFor } = await import("/client/react.js");
        window.rendered = [];
        const useSyncExternalStore = (subscribe, get) => {
            subscribe(() => rendered.push(get().credits.available));
            return get();
        };
        const useLongtake = hookFor({ useSyncExternalStore });
        window.same = useLongtake(client) === client.state && client.state === client.state;
    }""")
    assert await tab.run("same")
    api.grant("ada", 9)
    await tab.page.wait_for_function("rendered.at(-1) === 9")
