"""A few warm decoders, shared by all who want pictures of files; replaced when they die or have done enough."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longtake.adapters.decoder.decoder import Decoder, Source, Whole
from longtake.errors import DecoderFailed, DecodersBusy, MediaRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from longtake.adapters.decoder.request import Made, Wish

#: Then whoever waits for a decoder comes back later: a few slow sources must not spend the time of everybody's tries.
PLACE_SECONDS = 15.0
#: How many files in memory a decoder is told of at once, and how many bytes, where there are several. Between two that
#: it is told of singly it waits for its parent, which has others to hear; that took longer than a poster.
FILES_AT_ONCE = 16
BYTES_AT_ONCE = 512 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A file in memory that waits for a decoder; it is not waited for any more when `made` is done."""

    wish: Wish
    source: Whole
    made: asyncio.Future[Made]
    patience: asyncio.Timeout
    until: float | None

    def end(self, made: Made | BaseException) -> None:
        """Tell whoever still waits."""
        if self.made.done():
            return
        if isinstance(made, BaseException):
            self.made.set_exception(made)
        else:
            self.made.set_result(made)


class Decoders:
    """At most so many children; started when needed, stopped by `close`."""

    def __init__(
        self,
        most: int,
        *,
        wall_seconds: float = 45.0,
        processor_seconds: float = 20.0,
        place_seconds: float = PLACE_SECONDS,
    ) -> None:
        self._most = most
        self._places = asyncio.Semaphore(most)
        # Nobody waits for a preview: half of the decoders are left to whoever does wait.
        self._preview_places = asyncio.Semaphore(max(1, most // 2))
        self._idle: list[Decoder] = []
        self._waiting: deque[_Asked] = deque()
        self._serving: set[asyncio.Task[None]] = set()
        self._wall_seconds = wall_seconds
        self._processor_seconds = processor_seconds
        self._place_seconds = place_seconds

    async def make(self, wish: Wish, source: Source) -> Made:
        """Make a picture, or raise MediaRefused: the file is to blame; DecoderFailed: the decoder died of it.

        Or DecodersBusy: nothing was tried.
        """
        if isinstance(source, Whole):
            return await self._make_with_others(wish, source)
        async with self._place(wish), self._decoder() as decoder:
            decoder.tell(wish, source, self._processor_seconds)
            return await self._answer(decoder, source)

    async def close(self) -> None:
        """End all children."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        while self._waiting:
            self._waiting.popleft().end(DecodersBusy("The decoders have been closed."))
        idle, self._idle = self._idle, []
        await asyncio.gather(*(decoder.end() for decoder in idle))

    # -- files in memory, several at a time ----------------------------------------------------------------------

    async def _make_with_others(self, wish: Wish, source: Whole) -> Made:
        try:
            async with asyncio.timeout(self._place_seconds) as patience:
                asked = _Asked(wish, source, asyncio.get_running_loop().create_future(), patience, patience.when())
                self._waiting.append(asked)
                # One that is done leaves the set a moment later; until then it looks as if it would serve us.
                if sum(not task.done() for task in self._serving) < self._most:
                    task = asyncio.create_task(self._serve())
                    self._serving.add(task)
                    task.add_done_callback(self._serving.discard)
                return await asked.made
        except TimeoutError:
            raise self._busy() from None

    async def _serve(self) -> None:
        while self._waiting:
            # Given back after each turn: others wait for decoders too.
            async with self._places:
                if turn := self._next():
                    await self._serve_turn(turn)

    def _next(self) -> list[_Asked]:
        """Return the files whose turn it is; from now on nobody gives up waiting for a decoder."""
        turn: list[_Asked] = []
        size = 0
        while self._waiting and len(turn) < FILES_AT_ONCE:
            asked = self._waiting[0]
            if asked.made.done():
                self._waiting.popleft()
                continue
            size += asked.source.size
            if turn and size > BYTES_AT_ONCE:
                break
            self._waiting.popleft()
            asked.patience.reschedule(None)
            turn.append(asked)
        return turn

    async def _serve_turn(self, turn: Sequence[_Asked]) -> None:
        try:
            async with self._decoder() as decoder:
                for asked in turn:
                    decoder.tell(asked.wish, asked.source, self._processor_seconds)
                for number, asked in enumerate(turn, 1):
                    try:
                        asked.end(await self._answer(decoder, asked.source))
                    except MediaRefused as refusal:
                        asked.end(refusal)
                    except DecoderFailed as failure:
                        asked.end(failure)
                        # It was this file; the others have nothing to do with it, and are next.
                        self._put_back(turn[number:])
                        return
        except BaseException as error:
            for asked in turn:
                asked.end(error)
            if not isinstance(error, Exception):
                raise

    def _put_back(self, turn: Sequence[_Asked]) -> None:
        """Have files wait for a decoder again; not longer than if it had never been their turn."""
        for asked in reversed(turn):
            if not asked.made.done():
                asked.patience.reschedule(asked.until)
                self._waiting.appendleft(asked)

    # -- places and children -------------------------------------------------------------------------------------

    async def _answer(self, decoder: Decoder, source: Source) -> Made:
        try:
            async with asyncio.timeout(self._wall_seconds):
                return await decoder.answer(source)
        except TimeoutError:
            raise DecoderFailed(f"Decoding took more than {self._wall_seconds:g} s and was stopped.") from None

    @contextlib.asynccontextmanager
    async def _place(self, wish: Wish) -> AsyncIterator[None]:
        gates = [self._preview_places, self._places] if wish.what == "preview" else [self._places]
        async with contextlib.AsyncExitStack() as passed:
            try:
                async with asyncio.timeout(self._place_seconds):
                    for gate in gates:
                        await passed.enter_async_context(gate)
            except TimeoutError:
                raise self._busy() from None
            yield

    def _busy(self) -> DecodersBusy:
        return DecodersBusy(f"No decoder was free for {self._place_seconds:g} s.")

    @contextlib.asynccontextmanager
    async def _decoder(self) -> AsyncIterator[Decoder]:
        decoder = self._idle.pop() if self._idle else await Decoder.start()
        try:
            yield decoder
        finally:
            if decoder.reusable:
                self._idle.append(decoder)
            else:
                await decoder.end()
