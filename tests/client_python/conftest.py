"""Fixtures: a service with a sandbox for all tests of a module, and a server that answers as it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from longtake.client import Client
from tests.api.stage import SECRET, token
from tests.client_python.scripted import Scripted, scripted
from tests.client_python.stage import CLIENTS, TOKEN, done
from tests.sandbox_process import SandboxProcess, running_sandbox
from tests.service.processes import Place, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@dataclass
class Service:
    """A running server, its sandbox, and a user with credits."""

    place: Place
    server: Server
    sandbox: SandboxProcess
    token: str

    def client(self) -> Client:
        return Client(self.server.url, self.token)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_sandbox(seconds={"image": 0.3}) as sandbox:
        settings = {
            "LONGTAKE_JWT_SECRET": SECRET,
            "LONGTAKE_KIE_API_KEY": sandbox.key,
            "LONGTAKE_KIE_BASE_URL": sandbox.kie_url,
            "LONGTAKE_ALLOW_ADDRESSES": "loopback",
            "LONGTAKE_REQUESTS_PER_MINUTE": "100000",
        }
        place = Place(tmp_path_factory.mktemp("client"), settings)
        with place.server_here() as server:
            server.operate("credits.grant", user_id="ann", amount=1000, reason="a test", by="the test")
            yield Service(place, server, sandbox, token("ann"))


@pytest.fixture
def script() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture(params=list(CLIENTS))
async def make_client(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """Makes clients of one of the two kinds, and closes them."""
    made: list[Any] = []

    def make(server: str, token: str = TOKEN, **options: Any) -> Any:
        made.append(CLIENTS[request.param](server, token, **options))
        return made[-1]

    yield make
    for client in made:
        await done(client.close())
