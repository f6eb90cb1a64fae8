"""Where media are kept while they are measured: SQLite with a folder, PostgreSQL with a bucket of a real S3 server."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import children, flight
from bench.assets_source import Source, running_source
from bench.ground import Ground
from bench.service import Service, service_on
from longtake.client import Client
from tests.s3_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server

PLACES = {"sqlite": "SQLite and a folder", "postgresql": "PostgreSQL and S3"}
USER = "ada"


@dataclass(frozen=True)
class Place:
    """A running service with its storage."""

    service: Service
    token: str
    client: Client
    #: The process that copies files and starts decoders; on SQLite it is the server.
    worker: children.Child


@contextmanager
def running_place(ground: Ground, dialect: str) -> Iterator[Place]:
    """Run the service as it is meant for this database; one user has credits, and no lane is limited."""
    with service_on(ground, dialect) as service, ExitStack() as stack:
        service.environment["LONGTAKE_PUBLIC_URL"] = service.url
        if dialect == "postgresql":
            service.environment |= s3_settings(ground, Path(service.environment["LONGTAKE_DATA_DIR"]).name)
        for lane in ("kie.submit", "kie.query"):
            service.open_lane(lane)
        flight.grant(service, [USER])
        token = service.command("token", "--user", USER)
        apart = dialect == "postgresql"
        worker = stack.enter_context(service.running("serve", *(["--no-worker"] if apart else [])))
        if apart:
            worker = stack.enter_context(service.running("worker"))
        yield Place(service, token, stack.enter_context(Client(service.url, token)), worker)


def s3_settings(ground: Ground, folder: str) -> dict[str, str]:
    """Return what a Longtake process must be told to keep objects in a folder of the bucket."""
    return {
        "LONGTAKE_STORAGE_URL": s3_server(ground).url(folder),
        "LONGTAKE_S3_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "LONGTAKE_S3_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
    }


def s3_server(ground: Ground) -> S3Server:
    return ground.keep("s3", running_s3_server)


@contextmanager
def running_s3_server() -> Iterator[S3Server]:
    server = S3Server()
    try:
        yield server
    finally:
        server.stop()


def source(ground: Ground) -> Source:
    """Return the one source of all parts, which is not the sandbox: its files are as large as a part wants them."""
    return ground.keep("source", kept_source)


@contextmanager
def kept_source() -> Iterator[Source]:
    with tempfile.TemporaryDirectory(prefix="longtake-bench-") as folder, running_source(Path(folder)) as found:
        yield found
