"""The files that the sandbox serves: results, and the posters and covers of titles.

Results are drawn in threads, once for each recipe, and served at unguessable URLs that expire. They have lengths,
ranges and ETags, and answer 410 afterwards. With ``--instant`` they are tiny and always the same.

Posters are JPEGs that differ at every URL. A picture takes milliseconds to draw, and a test may fetch ten thousand. So
a few pictures are drawn once and shared by all URLs; a comment inside the file makes the bytes differ.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from aiohttp import web
from PIL import Image, ImageOps

from longtake_sandbox import media
from longtake_sandbox.calls import Endpoint, Exchange
from longtake_sandbox.faults import AFTERWARDS

if TYPE_CHECKING:
    from longtake_sandbox.faults import Fault
    from longtake_sandbox.sandbox import Options, Sandbox
    from longtake_sandbox.tasks import Task

SUFFIXES = {"png": "png", "jpeg": "jpg", "mp4": "mp4"}
FILES_REMEMBERED = 64
THREADS = 2
TYPES = {"png": "image/png", "jpeg": "image/jpeg", "mp4": "video/mp4"}
TINY = 16

VARIANTS = 24
DRAWN_SIZE = (424, 600)
#: More than all documented sizes of all variants.
POSTERS_REMEMBERED = 512
#: 1 January 2026. Unchanged pictures are older.
NEVER_CHANGED_SINCE = 1_767_225_600
START_OF_IMAGE = 2
MARKER = 2


@dataclass(frozen=True, slots=True)
class SharedFile:
    """The task whose result a URL serves, and when the URL expires."""

    task: Task
    until: float


class Files:
    """All URLs that were ever given out, expired ones included."""

    def __init__(self) -> None:
        self.shared: dict[str, SharedFile] = {}

    def share(self, sandbox: Sandbox, task: Task, seconds: float) -> str:
        token = secrets.token_urlsafe(18)
        self.shared[token] = SharedFile(task, sandbox.now() + seconds)
        suffix = SUFFIXES[sandbox.studio.recipe(task).media_format]
        return f"{sandbox.url}/files/{token}/{task.id.rpartition('/')[2]}.{suffix}"

    def current(self, sandbox: Sandbox, task: Task) -> str:
        """Return the present URL of a result; a new one if the last has expired."""
        if not task.link or task.link_until <= sandbox.now():
            task.link = self.share(sandbox, task, sandbox.options.url_seconds)
            task.link_until = sandbox.now() + sandbox.options.url_seconds
        return task.link

    def find(self, url: str) -> SharedFile | None:
        """Return the file behind one of our URLs, even if the URL has expired."""
        return self.shared.get(url.partition("/files/")[2].partition("/")[0])


def read_file_call(sandbox: Sandbox, exchange: Exchange) -> None:
    """Note the task whose file is requested."""
    shared = sandbox.files.shared.get(exchange.request.match_info["token"])
    if shared:
        exchange.about(shared.task)


async def answer_file(sandbox: Sandbox, exchange: Exchange) -> web.StreamResponse:
    """Send a file, or the requested range of it."""
    shared = sandbox.files.shared.get(exchange.request.match_info["token"])
    if shared is None:
        return refuse_file(404, 404, "There is no such file.")
    if shared.until <= sandbox.now():
        return refuse_file(410, 410, "This address has expired.")
    return _file_response(exchange.request, await sandbox.studio.make(sandbox.studio.recipe(shared.task)))


def refuse_file(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error in the XML of a file store."""
    text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return web.Response(text=text, status=status, content_type="application/xml")


def _file_response(request: web.Request, file: Media) -> web.Response:
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": file.etag,
        "Cache-Control": "private",
        "Content-Type": file.content_type,
    }
    size = len(file.content)
    if file.etag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers={"ETag": file.etag})
    part = _range(request)
    if part is None or request.headers.get("If-Range", file.etag) != file.etag:
        return web.Response(body=file.content, headers=headers)
    start, stop, _step = part.indices(size)
    if start >= stop:
        return web.Response(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return web.Response(body=file.content[start:stop], status=206, headers=headers)


def _range(request: web.Request) -> slice | None:
    """Return the requested range. None for several ranges or an invalid one: then the whole file is sent."""
    try:
        return request.http_range if "Range" in request.headers else None
    except ValueError:
        return None


ENDPOINTS = (
    Endpoint("GET", "/files/{token}/{name}", "file", answer_file, read_file_call, provider="files", refuse=refuse_file),
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that determines the bytes of a result."""

    prompt: str
    ratio: str
    media_format: str
    faststart: bool = False
    references: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Media:
    """The bytes of a result."""

    content: bytes
    content_type: str
    etag: str


class Studio:
    """Draws media without blocking the event loop, and keeps the latest ones."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="studio")
        self._made: OrderedDict[Recipe, asyncio.Future[Media]] = OrderedDict()

    def recipe(self, task: Task) -> Recipe:
        """Return the recipe of a task's result, from the parameters of any model."""
        given = task.param
        ratio = str(given.get("aspect_ratio") or given.get("aspectRatio") or given.get("image_size") or "")
        if task.kind == "video":
            faststart = media.is_faststart(task.prompt, self._options.faststart)
            return Recipe(task.prompt, ratio if ":" in ratio else "16:9", "mp4", faststart, task.references)
        image_format = "jpeg" if given.get("output_format") in {"jpg", "jpeg"} else "png"
        return Recipe(task.prompt, ratio or "1:1", image_format, references=task.references)

    async def make(self, recipe: Recipe) -> Media:
        """Return the media of a recipe. Concurrent calls share one drawing."""
        if self._options.instant:
            recipe = Recipe("", f"{TINY}:{TINY}", recipe.media_format, recipe.faststart)
        if recipe not in self._made:
            tiny = self._options.instant
            loop = asyncio.get_running_loop()
            self._made[recipe] = loop.run_in_executor(self._threads, make_media, recipe, tiny)
            self._made[recipe].add_done_callback(lambda made: self._forget_failure(recipe, made))
            if len(self._made) > FILES_REMEMBERED:
                self._made.popitem(last=False)
        self._made.move_to_end(recipe)
        return await asyncio.shield(self._made[recipe])

    def _forget_failure(self, recipe: Recipe, made: asyncio.Future[Media]) -> None:
        if made.cancelled() or made.exception() is not None:
            self._made.pop(recipe, None)

    async def reduce(self, content: bytes) -> bytes:
        """Return a reference as a small picture; raise OSError or ValueError if it is no picture."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, media.reduce_picture, content)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def make_media(recipe: Recipe, tiny: bool = False) -> Media:  # noqa: FBT001, FBT002 - the executor passes by position
    """Draw and encode. This blocks for as long as it takes."""
    if recipe.media_format == "mp4":
        if tiny:
            plain = Image.new("RGB", (TINY * 4, TINY * 4), (90, 140, 200))
            content = media.encode_clip(iter([plain] * 2), plain.size, faststart=recipe.faststart)
        else:
            content = media.draw_clip(
                recipe.prompt, recipe.ratio, faststart=recipe.faststart, references=recipe.references
            )
    elif tiny:
        content = media.encode(Image.new("RGB", (TINY, TINY), (90, 140, 200)), recipe.media_format)
    else:
        image = media.draw_picture(recipe.prompt, media.size_of(recipe.ratio), recipe.references)
        content = media.encode(image, recipe.media_format)
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Media(content, TYPES[recipe.media_format], etag)


@dataclass(slots=True)
class Cover:
    """The number of a title's picture, and the time since when it has it."""

    number: int
    since: int


class Covers:
    """The covers that were changed. All others are number 0."""

    def __init__(self) -> None:
        self._changed: dict[int, Cover] = {}

    def of(self, bangumi_id: int) -> Cover:
        return self._changed.get(bangumi_id) or Cover(0, NEVER_CHANGED_SINCE - bangumi_id % 100_000 * 60)

    def change(self, bangumi_id: int, number: int, now: float) -> None:
        """Set another cover. Its date always moves on, even for two changes within a second."""
        before = self.of(bangumi_id)
        if before.number != number:
            self._changed[bangumi_id] = Cover(number, max(int(now), before.since + 1))


def answer_picture(exchange: Exchange, owner: int, cover: Cover, size: tuple[int, int]) -> web.Response:
    """Return the picture at a URL, or 304 if the caller has it already."""
    name = f"{exchange.path} {cover.number}"
    etag = f'"{hashlib.blake2s(name.encode(), digest_size=16).hexdigest()}"'
    headers = {
        "ETag": etag,
        "Last-Modified": formatdate(cover.since, usegmt=True),
        "Cache-Control": "public, max-age=3600",
    }
    # A fault that breaks the body needs a body.
    needs_body = exchange.fault is not None and exchange.fault.kind in AFTERWARDS
    if not needs_body and _is_known(exchange.request, etag, cover.since):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = "image/jpeg"
    return web.Response(body=picture_file((owner + cover.number) % VARIANTS, size, name), headers=headers)


def refuse_picture(status: int, code: int, message: str, fault: Fault | None = None) -> web.Response:  # noqa: ARG001
    """Return an error as plain text, as image servers do."""
    return web.Response(text=message, status=status)


def picture_file(variant: int, size: tuple[int, int], name: str) -> bytes:
    """Return a JPEG that holds the name in a comment."""
    before, after = _encoded(variant, size)
    comment = name.encode()
    return b"".join((before, b"\xff\xfe", (len(comment) + 2).to_bytes(2, "big"), comment, after))


@lru_cache(POSTERS_REMEMBERED)
def _encoded(variant: int, size: tuple[int, int]) -> tuple[bytes, bytes]:
    """Return a JPEG in two parts, split after its first segment, where a comment may stand."""
    drawn = _drawn(variant)
    content = media.encode(drawn if size == drawn.size else ImageOps.fit(drawn, size), "jpeg")
    head = START_OF_IMAGE + MARKER
    end = head + int.from_bytes(content[head : head + 2], "big")
    return content[:end], content[end:]


@cache
def _drawn(variant: int) -> Image.Image:
    return media.draw_picture(f"poster {variant + 1}", DRAWN_SIZE)


def _is_known(request: web.Request, etag: str, since: int) -> bool:
    """Return whether the caller has these bytes. A date counts only without an ETag."""
    known = request.headers.get("If-None-Match")
    if known is not None:
        return known.strip() == "*" or etag in known
    try:
        return since <= parsedate_to_datetime(request.headers["If-Modified-Since"]).timestamp()
    except (KeyError, ValueError):
        return False
