"""A catalogue that is measured: a service on one database, its titles, and the sandbox's word for what is true."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from bench import children
from bench.ground import Ground
from bench.outside import KEY, Sandbox
from bench.service import Service
from bench.settled import in_postgresql

#: As many as one request brings in.
BATCH = 500
SECONDS = 60.0
USER = "ada"


@dataclass(frozen=True)
class Place:
    """A running catalogue."""

    service: Service
    token: str
    #: The process that fetches; on SQLite it is the server.
    worker: children.Child

    def ask(self, method: str, path: str, content: Any = None) -> Any:
        """Call a route of the catalogue; what it refuses is a failure of the measurement."""
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=SECONDS)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            body = None if content is None else json.dumps(content)
            connection.request(method, f"/v1/catalogue{path}", body, headers)
            answer = connection.getresponse()
            read = answer.read()
            assert answer.status < 300, f"{method} {path} answered {answer.status}: {read[:200]!r}"
            return json.loads(read) if read else None
        finally:
            connection.close()

    def bring_in(self, titles: list[dict[str, Any]]) -> None:
        """Import titles; nothing is done about them before the catalogue is started."""
        for start in range(0, len(titles), BATCH):
            items = self.ask("POST", "/titles/import", {"titles": titles[start : start + BATCH]})["items"]
            assert all(item["result"] == "created" for item in items), "some titles were not taken"


@contextmanager
def running_catalogue(service: Service, ground: Ground, **settings: str) -> Iterator[Place]:
    """Run the service as it is meant for its database; nothing happens by itself."""
    service.environment |= catalogue_settings(ground.sandbox) | settings
    token = service.command("token", "--user", USER, "--role", "operator")
    apart = service.dialect == "postgresql"
    with ExitStack() as stack:
        worker = stack.enter_context(service.running("serve", *(["--no-worker"] if apart else [])))
        if apart:
            worker = stack.enter_context(service.running("worker"))
            wait_until_registered(service, worker)
        yield Place(service, token, worker)


def wait_until_registered(service: Service, worker: children.Child) -> None:
    """Wait until a worker takes jobs: how long a process takes to load is no part of what is measured."""
    with in_postgresql("SELECT EXISTS (SELECT 1 FROM workers)")(service.database) as registered:
        deadline = time.monotonic() + SECONDS
        while not registered():
            worker.check()
            assert time.monotonic() < deadline, f"no worker was there within {SECONDS:g} s"
            time.sleep(0.05)


def catalogue_settings(sandbox: Sandbox) -> dict[str, str]:
    return {
        "LONGTAKE_TMDB_API_KEY": KEY,
        "LONGTAKE_TMDB_BASE_URL": f"{sandbox.url}/tmdb/3",
        "LONGTAKE_TMDB_IMAGES_URL": f"{sandbox.url}/tmdb-images",
        "LONGTAKE_BANGUMI_BASE_URL": f"{sandbox.url}/bangumi",
        "LONGTAKE_BANGUMI_IMAGES_URL": f"{sandbox.url}/bangumi-images",
        "LONGTAKE_SYNC_MINUTES": "0",
        "LONGTAKE_CALENDAR_HOURS": "0",
    }


def true_titles(sandbox: Sandbox, number: int) -> list[dict[str, Any]]:
    """Have the sandbox know so many titles, and return what is true about them; TMDB has no limit there."""
    sandbox.set(titles=number, tmdb_limit="")
    titles: list[dict[str, Any]] = sandbox.ask("GET", "/_titles")["titles"]
    return titles
