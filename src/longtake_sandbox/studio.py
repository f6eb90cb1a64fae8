"""The studio draws media in threads, once for each recipe. With ``--instant`` it returns tiny fixed ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longtake_sandbox.options import Options
    from longtake_sandbox.tasks import Task

REMEMBERED = 64
THREADS = 2
TYPES = {"png": "image/png", "jpeg": "image/jpeg", "mp4": "video/mp4"}
TINY = 16


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
            from longtake_sandbox.clips import is_faststart  # noqa: PLC0415 - loads the codecs only for clips

            faststart = is_faststart(task.prompt, self._options.faststart)
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
            if len(self._made) > REMEMBERED:
                self._made.popitem(last=False)
        self._made.move_to_end(recipe)
        return await asyncio.shield(self._made[recipe])

    def _forget_failure(self, recipe: Recipe, made: asyncio.Future[Media]) -> None:
        if made.cancelled() or made.exception() is not None:
            self._made.pop(recipe, None)

    async def reduce(self, content: bytes) -> bytes:
        """Return a reference as a small picture; raise OSError or ValueError if it is no picture."""
        from longtake_sandbox.pictures import reduce_picture  # noqa: PLC0415 - loads Pillow only when needed

        return await asyncio.get_running_loop().run_in_executor(self._threads, reduce_picture, content)

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def make_media(recipe: Recipe, tiny: bool = False) -> Media:  # noqa: FBT001, FBT002 - the executor passes by position
    """Draw and encode. This blocks for as long as it takes."""
    from PIL import Image  # noqa: PLC0415 - loads Pillow only when needed

    from longtake_sandbox import clips, pictures  # noqa: PLC0415 - as above

    if recipe.media_format == "mp4":
        if tiny:
            plain = Image.new("RGB", (TINY * 4, TINY * 4), (90, 140, 200))
            content = clips.encode_clip(iter([plain] * 2), plain.size, faststart=recipe.faststart)
        else:
            content = clips.draw_clip(
                recipe.prompt, recipe.ratio, faststart=recipe.faststart, references=recipe.references
            )
    elif tiny:
        content = pictures.encode(Image.new("RGB", (TINY, TINY), (90, 140, 200)), recipe.media_format)
    else:
        image = pictures.draw_picture(recipe.prompt, pictures.size_of(recipe.ratio), recipe.references)
        content = pictures.encode(image, recipe.media_format)
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Media(content, TYPES[recipe.media_format], etag)
