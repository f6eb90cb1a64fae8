"""The sandbox's HTTP server: all providers under one address, and its own routes.

It runs on aiohttp instead of the ASGI server of Longtake's API because aiohttp exposes the transport, so a connection
can be cut after the work is done and a body can end early. aiohttp also parses in C, fast enough to poll ten thousand
tasks.
"""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from aiohttp import web
from pydantic import Field, ValidationError

from longtake_sandbox import catalogues, files, gemini, kie
from longtake_sandbox.callbacks import send_callback
from longtake_sandbox.calls import json_response
from longtake_sandbox.catalogues import cover_url
from longtake_sandbox.faults import Posted, RuleBody
from longtake_sandbox.sandbox import MOST_TITLES, Limit, Sandbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from longtake_sandbox.sandbox import Options
    from longtake_sandbox.titles import Title

#: All routes. To add a provider, write a module with ENDPOINTS and add it here.
ENDPOINTS = (*kie.ENDPOINTS, *gemini.ENDPOINTS, *files.ENDPOINTS, *catalogues.ENDPOINTS)
CALLBACK_SHAPES = {kie.FAMILY: kie.callback, kie.VEO_FAMILY: kie.veo_callback}
LARGEST_BODY = 64 * 1024 * 1024
#: How long a stop waits for open requests. Some hang on purpose.
STOP_SECONDS = 0.2
LIMITS = ("submit_limit", "query_limit", "tmdb_limit")
CALL_FILTERS = ("provider", "route", "task", "model", "reference", "method", "status", "fault")


class SandboxServer:
    """Serves one sandbox on the event loop that starts it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.sandbox = Sandbox(options)
        self.sandbox.callback_shapes |= CALLBACK_SHAPES
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=STOP_SECONDS)

    async def start(self) -> str:
        """Listen and return the base URL. Port 0 takes any free port."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.options.host, self.options.port, backlog=1024)
        await site.start()
        port = self._runner.addresses[0][1]
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        self.sandbox.url = f"http://{host}:{port}"
        self.sandbox.restore()
        return self.sandbox.url

    async def stop(self) -> None:
        await self.sandbox.close()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=LARGEST_BODY)
        for endpoint in ENDPOINTS:
            methods = (endpoint.method, "HEAD") if endpoint.route in {"file", "image"} else (endpoint.method,)
            for method in methods:
                application.router.add_route(method, endpoint.path, partial(endpoint.handle, self.sandbox))
        Control(self.sandbox).add_to(application)
        return application


def run_sandbox(options: Options, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; call `announce` with the base URL once the server listens."""
    try:
        import uvloop  # noqa: PLC0415 - not available on Windows

        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    except ImportError:
        new_loop = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(options, announce))


async def _serve(options: Options, announce: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = SandboxServer(options)
    announce(await server.start())
    await stop.wait()
    await server.stop()


class SettingsBody(Posted):
    """Settings to change while the sandbox runs; fields left out stay. An empty string removes a limit."""

    #: None removes a model's own duration.
    seconds: dict[str, Annotated[float, Field(ge=0)] | None] | None = None
    spread: float | None = Field(None, ge=0, le=1)
    keys: list[str] | None = None
    instant: bool | None = None
    submit_limit: str | None = None
    query_limit: str | None = None
    tmdb_limit: str | None = None
    titles: int | None = Field(None, ge=0, le=MOST_TITLES)
    url_seconds: float | None = Field(None, ge=0)
    webhook_key: str | None = None
    faststart: Literal["half", "yes", "no"] | None = None


class CallbackBody(Posted):
    """A callback to send now, for a task with a callback URL."""

    task: str
    kind: Literal["duplicate", "forged", "early", "unknown_task"] = "duplicate"


class CoverBody(Posted):
    """The number of the picture to show as a title's cover and poster."""

    bangumi_id: int
    cover: int = Field(ge=0)


class Control:
    """The own routes, below /_: look at calls and tasks, change settings, faults and titles."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def add_to(self, application: web.Application) -> None:
        application.add_routes([
            web.get("/", self.describe),
            web.get("/_calls", self.list_calls),
            web.get("/_calls/summary", self.count_calls),
            web.delete("/_calls", self.clear_calls),
            web.get("/_tasks", self.list_tasks),
            web.get("/_faults", self.list_faults),
            web.post("/_faults", partial(_answer_body, RuleBody, self.add_fault)),
            web.delete("/_faults", self.remove_faults),
            web.delete("/_faults/{number:\\d+}", self.remove_faults),
            web.get("/_settings", self.show_settings),
            web.post("/_settings", partial(_answer_body, SettingsBody, self.change_settings)),
            web.post("/_callbacks", partial(_answer_body, CallbackBody, self.send_callback)),
            web.get("/_titles", self.list_titles),
            web.post("/_titles", partial(_answer_body, CoverBody, self.change_cover)),
        ])  # fmt: skip

    async def describe(self, _request: web.Request) -> web.Response:
        tasks, calls = len(list(self._sandbox.tasks)), self._sandbox.calls.last
        knobs = ["/_calls", "/_calls/summary", "/_tasks", "/_faults", "/_settings", "/_callbacks", "/_titles"]
        return json_response({"name": "Longtake sandbox", "tasks": tasks, "calls": calls, "knobs": knobs})

    async def list_calls(self, request: web.Request) -> web.Response:
        query = request.query
        since = query.get("since", "0")
        if not since.isdecimal():
            return refuse("since is the number of a call")
        filters = {name: query.get(name, "") for name in CALL_FILTERS}
        calls = self._sandbox.calls.find(int(since), query.get("path", ""), query.get("query", ""), **filters)
        return json_response({"calls": [call.as_dict() for call in calls], "last": self._sandbox.calls.last})

    async def count_calls(self, _request: web.Request) -> web.Response:
        return json_response({"counts": self._sandbox.calls.summary(), "last": self._sandbox.calls.last})

    async def clear_calls(self, _request: web.Request) -> web.Response:
        self._sandbox.calls.clear()
        return json_response({"last": self._sandbox.calls.last})

    async def list_tasks(self, _request: web.Request) -> web.Response:
        now = self._sandbox.now()
        return json_response({"tasks": [task.as_dict(now) for task in self._sandbox.tasks]})

    async def list_faults(self, _request: web.Request) -> web.Response:
        return json_response({"rules": [rule.as_dict() for rule in self._sandbox.faults.rules]})

    async def add_fault(self, body: RuleBody) -> web.Response:
        return json_response(self._sandbox.faults.add(body).as_dict(), 201)

    async def remove_faults(self, request: web.Request) -> web.Response:
        number = request.match_info.get("number")
        removed = self._sandbox.faults.remove(int(number) if number else None)
        return json_response({"removed": removed}, 404 if number and not removed else 200)

    async def show_settings(self, _request: web.Request) -> web.Response:
        return json_response(self._settings())

    async def change_settings(self, body: SettingsBody) -> web.Response:
        given = {name: value for name, value in body.model_dump().items() if value is not None}
        try:
            given |= {name: Limit.parse(given[name]) if given[name] else None for name in LIMITS if name in given}
        except ValueError:
            return refuse("a limit is COUNT/SECONDS, such as 20/10")
        if "seconds" in given:
            merged = self._sandbox.options.seconds | given["seconds"]
            given["seconds"] = {name: value for name, value in merged.items() if value is not None}
        if "keys" in given:
            given["keys"] = frozenset(given["keys"])
        for name, value in given.items():
            setattr(self._sandbox.options, name, value)
        return json_response(self._settings())

    async def send_callback(self, body: CallbackBody) -> web.Response:
        task = self._sandbox.tasks.get(body.task)
        if task is None or not task.callback_url:
            return refuse("there is no such task, or it named no callback address", 404)
        return json_response({"status": await send_callback(self._sandbox, task, body.kind)})

    async def list_titles(self, request: web.Request) -> web.Response:
        """List the titles with the true answers about them, or `limit` of them after an id."""
        after, limit = request.query.get("after", "0"), request.query.get("limit")
        if not after.isdecimal() or not (limit is None or limit.isdecimal()):
            return refuse("after is the bangumi_id of a title, limit a number of titles")
        catalogue = self._sandbox.catalogue
        titles = catalogue.after(int(after), None if limit is None else int(limit))
        return json_response({"titles": [self._title(title) for title in titles], "total": len(catalogue.titles)})

    async def change_cover(self, body: CoverBody) -> web.Response:
        title = self._sandbox.catalogue.by_id.get(body.bangumi_id)
        if title is None:
            return refuse("there is no such title", 404)
        self._sandbox.covers.change(title.bangumi_id, body.cover, self._sandbox.now())
        return json_response(self._title(title))

    def _title(self, title: Title) -> dict[str, Any]:
        return {
            "bangumi_id": title.bangumi_id,
            "names": title.names._asdict(),
            "year": title.air_date.year,
            "air_date": title.air_date.isoformat(),
            "cover_url": cover_url(self._sandbox, title),
            "cover": self._sandbox.covers.of(title.bangumi_id).number,
            "kind": title.kind,
            "tmdb_id": title.tmdb_id,
            "tmdb_ids": title.tmdb_ids,
        }

    def _settings(self) -> dict[str, Any]:
        options = self._sandbox.options
        shown = {name: getattr(options, name) for name in SettingsBody.model_fields}
        shown |= {name: str(shown[name] or "") for name in LIMITS}
        return shown | {"keys": len(options.keys), "webhook_key": bool(options.webhook_key)}


def refuse(message: str, status: int = 400) -> web.Response:
    """Return an error with a message."""
    return json_response({"error": message}, status)


async def _answer_body(
    model: type[Posted], answer: Callable[[Any], Awaitable[web.Response]], request: web.Request
) -> web.Response:
    """Parse the request's body and answer it; an error names the body's invalid fields."""
    try:
        body = model.model_validate_json(await request.read())
    except ValidationError as error:
        problems = [{"at": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
        return json_response({"error": "The body is invalid.", "problems": problems}, 400)
    return await answer(body)
