"""A server's process: HTTP, and a worker beside it unless you turn it off."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import urlsplit

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from longtake.adapters.net import HttpClient
from longtake.adapters.net.errors import AddressRefused, NetError
from longtake.db import Database
from longtake.engine.worker import Worker
from longtake.errors import LongtakeError
from longtake.logs import configure_logs
from longtake.server.application import Application
from longtake.server.errors import CannotListen
from longtake.server.open_database import LOCATIONS
from longtake.server.process import StopSignal, opened, run_event_loop, until_stopped, working
from longtake.server.server_file import ServerFile, remove_server_file, write_server_file
from longtake.server.web import NOTHING_TO_CHECK, OK, Readiness, Serving, create_web
from longtake.services.accounts.authenticator import Authenticator, build_authenticator
from longtake.services.accounts.errors import AuthenticationRequired
from longtake.services.alerts import Severity, raise_alert, resolve_alert
from longtake.services.live.routes import TRANSPORT
from longtake.settings import Settings
from longtake.settings.checks import address_ranges, is_loopback_name, listed

HTTP_FAREWELL_SECONDS = 5
BACKLOG = 1024
ANY_ADDRESS = {4: "127.0.0.1", 6: "[::1]"}
UNREACHABLE = "PUBLIC_URL_UNREACHABLE"
CHECK_SECONDS = 10.0
HTTP_OK = 200

log = structlog.get_logger(__name__)


def run_server(settings: Settings, *, with_worker: bool = True) -> None:
    """Serve until a signal comes."""
    configure_logs(settings.log_format, settings.log_level)
    require_keys_for_open_address(settings)
    # The port first: a taken one is then a clear answer and not half a start.
    with (
        listen(settings.host, settings.port) as listener,
        opened(settings, "longtake serve", _url(settings.host, listener)) as application,
    ):
        run_event_loop(_serve(application, listener, with_worker=with_worker))


def require_keys_for_open_address(settings: Settings) -> None:
    """Refuse to listen beyond this machine without configured keys."""
    configured = settings.jwt_jwks or settings.jwt_secret.get_secret_value()
    if not configured and not is_loopback_name(settings.host):
        raise AuthenticationRequired(
            f"Listening on {settings.host} lets others in, and no keys for users' tokens are configured."
        )


@contextlib.contextmanager
def listen(host: str, port: int) -> Iterator[socket.socket]:
    """Take the port; connections wait from here on until the server answers them."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"{host} is not an address of this machine: {error.strerror}.") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            raise CannotListen(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error
        yield listener


async def _serve(application: Application, listener: socket.socket, *, with_worker: bool) -> None:
    context, folder = application.context, application.settings.data_dir
    server = ServerFile(context.own_url, secrets.token_urlsafe(32), os.getpid())
    with StopSignal() as stop:
        await application.engine.start()
        worker = application.worker() if with_worker else None
        async with contextlib.AsyncExitStack() as stack:
            # Ended in the opposite order: the server still answers while the worker stops.
            await stack.enter_async_context(application.ready())
            accounts = await _accounts(application)
            for running in context.every(lambda one: one.beside_server):
                await stack.enter_async_context(running())
            web = _web(application, server, accounts, _worker_state(worker, stop))
            parts = [await stack.enter_async_context(_answering(web, listener))]
            for end in context.every(lambda one: one.on_stop):
                stack.callback(end)
            write_server_file(folder, server)
            stack.callback(remove_server_file, folder, server)
            log.info("server started", action="start", url=server.url, database=application.database.dialect)
            stack.enter_context(_checking_public_address(application))
            if worker is not None:
                await stack.enter_async_context(application.beside_worker())
                parts.append(await stack.enter_async_context(working(worker)))
            await until_stopped(stop, *parts)


async def _accounts(application: Application) -> Authenticator:
    """Return the authenticator, with the keys of users' tokens fetched from their issuer where that is configured."""
    authenticator = build_authenticator(
        application.settings,
        application.database,
        own_secret=lambda: application.root_secret.derive("tokens"),
        client=application.context.http,
        clock=application.clock,
    )
    await authenticator.start()
    return authenticator


@contextlib.contextmanager
def _checking_public_address(application: Application) -> Iterator[None]:
    """Try the public address beside everything else."""
    public_url = application.settings.public_url
    if not public_url:
        yield
        return
    check = check_public_address(application.context.http, application.database, public_url)
    task = asyncio.create_task(check)
    try:
        yield
    finally:
        task.cancel()


async def check_public_address(client: HttpClient, database: Database, public_url: str) -> None:
    """Ask for our own health under the public address; raise or resolve an alert. Never keeps the server from running.

    Some networks do not let a machine reach itself from outside, so this is a warning and not an error.
    """
    try:
        answer = await client.request("GET", f"{public_url.rstrip('/')}/healthz", seconds=CHECK_SECONDS)
        found = "" if answer.status == HTTP_OK else f"it answered {answer.status}"
    except AddressRefused:
        # A private address that requests may not go to: the operator who set it uses a private network.
        return
    except NetError as error:
        found = error.message
    try:
        if found:
            log.warning("the public address does not lead here", action="check", url=public_url, reason=found)
            message = f"LONGTAKE_PUBLIC_URL ({public_url}) does not lead to this server: {found}."
            await database.run(raise_alert, Severity.WARNING, UNREACHABLE, message)
        else:
            await database.run(resolve_alert, UNREACHABLE)
    except LongtakeError as error:
        log.warning("the check of the public address could not be written", action="check", code=error.code)


def _worker_state(worker: Worker | None, stop: StopSignal) -> Callable[[], str]:
    def state() -> str:
        if stop.event.is_set():
            return "this process is stopping"
        return NOTHING_TO_CHECK if worker is None else OK

    return state


def _web(
    application: Application,
    server: ServerFile,
    accounts: Authenticator,
    worker_state: Callable[[], str],
) -> uvicorn.Config:
    settings = application.settings
    serving = Serving(
        engine=application.engine,
        readiness=Readiness(application.database, LOCATIONS, worker_state),
        token=server.token,
        accounts=accounts,
        actions=application.actions,
        capabilities=application.routers(),
    )
    hosts = [settings.host, urlsplit(settings.public_url).hostname or settings.host]
    return uvicorn.Config(
        create_web(
            serving,
            allowed_hosts=hosts,
            upload_bytes=settings.reference_bytes,
            allowed_origins=listed(settings.allowed_origins),
        ),
        log_config=None,
        access_log=False,
        server_header=False,
        # Nobody else is believed about whom they ask for; left to itself uvicorn would believe all of this machine.
        forwarded_allow_ips=address_ranges(settings.trusted_proxies),
        lifespan="off",
        http=HttpProtocol,
        timeout_graceful_shutdown=HTTP_FAREWELL_SECONDS,
    )


class HttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it; requests come with their connection."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: self.transport}  # type: ignore[dict-item]


class _HttpServer(uvicorn.Server):
    """Leaves signals to us: they stop more than HTTP."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def _answering(config: uvicorn.Config, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    http = _HttpServer(config)
    task = asyncio.create_task(http.serve(sockets=[listener]))
    try:
        yield task
    finally:
        http.should_exit = True
        await asyncio.wait([task])


def _url(host: str, listener: socket.socket) -> str:
    """Return an address under which this machine reaches the server."""
    port = listener.getsockname()[1]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"http://{host}:{port}"
    if address.is_unspecified:
        return f"http://{ANY_ADDRESS[address.version]}:{port}"
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"  # noqa: PLR2004
