"""Servers that behave as they are told to, on real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp.abc import AbstractResolver, ResolveResult


@dataclass
class Received:
    """What a server was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A listening server with its log."""

    behaviour: Behaviour
    scheme: str = "http"
    host: str = "127.0.0.1"
    port: int = 0
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                request = await read_request(reader)
                self.received.append(request)
                self.asked.set()
                await self.behaviour(request, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def close_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


async def read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _version = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return Received(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def running(
    behaviour: Behaviour, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    server = Server(behaviour, "https" if tls else "http", host)
    listening = await asyncio.start_server(server.serve, host, 0, ssl=tls, backlog=2000)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        server.close_connections()


def answer(status: int = 200, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """Return an HTTP answer; a Content-Length in `headers` wins over the true one."""
    lines = {"Content-Length": str(len(body))} | (headers or {})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Something\r\n{head}\r\n".encode() + body


def saying(said: bytes) -> Behaviour:
    """Answer every request with these bytes."""

    async def behave(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(said if request.method != "HEAD" else said[: said.index(b"\r\n\r\n") + 4])

    return behave


def saying_and_closing(said: bytes) -> Behaviour:
    """Answer with these bytes and hang up."""

    async def behave(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.close()

    return behave


def redirecting(places: dict[str, str], status: int = 302) -> Behaviour:
    """Redirect the paths that are named, and answer the others."""

    async def behave(request: Received, writer: asyncio.StreamWriter) -> None:
        place = places.get(request.path)
        writer.write(answer(status, headers={"Location": place}) if place is not None else answer(body=b"arrived"))

    return behave


async def silent(_request: Received, _writer: asyncio.StreamWriter) -> None:
    """Take the request and never answer."""
    await asyncio.sleep(3600)


async def hanging_up(_request: Received, writer: asyncio.StreamWriter) -> None:
    """Take the request and close the connection."""
    writer.close()


class Names(AbstractResolver):
    """Addresses of names; each question takes the next answer, the last one stays."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, _family: int = 0) -> list[ResolveResult]:
        self.asked.append(host)
        given = self.answers.get(host)
        if given is None:
            raise OSError(None, "no such name")
        addresses = given.pop(0) if len(given) > 1 else given[0]
        return [
            ResolveResult(hostname=host, host=one, port=port, family=10 if ":" in one else 2, proto=0, flags=0)
            for one in addresses
        ]

    async def close(self) -> None:
        pass
