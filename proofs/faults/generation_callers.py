"""Callers for a kill test of generation: they ask until they are answered, and remember what they were told."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import aiohttp

from longtake.services.accounts.own_tokens import ExpectedClaims, mint
from proofs.faults.generation_processes import SECRET

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

USERS = ("ada", "bo", "cleo")
#: How much of each: KIE's two APIs, and Gemini's two.
MODELS: dict[str, tuple[Literal["image", "video"], int]] = {
    "nano-banana": ("image", 8),
    "kling-2.6": ("video", 3),
    "veo3-fast": ("video", 3),
    "gemini-flash-image": ("image", 4),
    "veo-3.1-fast": ("video", 2),
}
#: An answer that has not come by then will not come.
ANSWER_SECONDS = 10.0
#: A server is killed, starts, which takes long where much else runs, and is killed again: as long as all of that.
PATIENCE_SECONDS = 300.0
#: Between two tries, growing: hundreds of callers must not use up the machine while their server is away.
PAUSE_SECONDS, PAUSE_LONGEST = 0.2, 2.0
#: These say: ask again.
NOT_NOW = frozenset((409, 429, 503))
CONFLICT = 409


@dataclass
class Wish:
    """A task that somebody wants, and what they were told about it."""

    number: int
    user: str
    model: str
    type: Literal["image", "video"]
    prompt: str
    conversation: str | None
    #: Seconds after its acceptance; None: it is let be.
    cancelled_after: float | None
    watched: bool
    #: The ids that answers named. More than one is what an idempotency key is there to prevent.
    told: set[str] = field(default_factory=set)
    #: What a cancel was answered with.
    told_cancelled: bool = False
    #: Every end that an answer told of. More than one is a lie.
    told_ends: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        assert len(self.told) == 1, f"wish {self.number} was told the ids {sorted(self.told)}"
        return next(iter(self.told))

    @property
    def is_bad(self) -> bool:
        """Say whether the provider will refuse it or fail."""
        return "[" in self.prompt


def make_wishes(count: int, conversations: Mapping[str, str], dice: random.Random) -> list[Wish]:
    """Return so many wishes, mixed; each prompt is there once, so that it tells whose a thing is."""
    names = dice.choices(list(MODELS), [weight for _type, weight in MODELS.values()], k=count)
    wishes = []
    for number, model in enumerate(names):
        user = dice.choice(USERS)
        bad = " [safety]" if model == "gemini-flash-image" else " [fail]"
        prompt = f"fox number {number} under fire" + (bad if dice.random() < 0.1 else "")
        conversation = conversations[user] if dice.random() < 0.6 else None
        cancelled_after = dice.choice((0.0, 0.5, 2.0, 5.0)) if dice.random() < 0.12 else None
        watched = dice.random() < 0.3
        wishes.append(Wish(number, user, model, MODELS[model][0], prompt, conversation, cancelled_after, watched))
    return wishes


class Callers:
    """Sends requests as users. What is cut off, refused for now, or answered by nobody is sent again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS))
        expected, now, day = ExpectedClaims("", ""), datetime.now(UTC), timedelta(days=1)
        self._tokens = {
            user: mint(SECRET.encode(), expected, user_id=user, role="user", now=now, lifetime=day) for user in USERS
        }
        self.repeats = 0
        #: Answers that no caller should ever get.
        self.surprises: list[str] = []

    async def close(self) -> None:
        await self._session.close()

    async def open_conversation(self, user: str) -> str:
        _status, content = await self._answered(user, "POST", "/v1/conversations", {"title": f"of {user}"})
        return str(content["id"])

    async def submit(self, wish: Wish) -> None:
        """Ask for the task under a key of its own, until somebody says that it is accepted."""
        body = {"model": wish.model, "prompt": wish.prompt, "conversation_id": wish.conversation}
        key = {"Idempotency-Key": f"wish-{wish.number}"}
        _status, content = await self._answered(wish.user, "POST", f"/v1/{wish.type}s/generate", body, key)
        wish.told.add(str(content["id"]))

    async def cancel(self, wish: Wish) -> None:
        """Cancel the task; that it has ended already is an answer as well."""
        path = f"/v1/tasks/{wish.id}/cancel"
        status, content = await self._answered(wish.user, "POST", path, final=frozenset((CONFLICT,)))
        wish.told_cancelled = status != CONFLICT
        wish.told_ends.add(content["status"] if status != CONFLICT else await self.look(wish))

    async def look(self, wish: Wish) -> str:
        """Return the task's status. Looking counts as watching: its provider is asked sooner."""
        _status, content = await self._answered(wish.user, "GET", f"/v1/tasks/{wish.id}")
        if content["ended_at"] is not None:
            wish.told_ends.add(content["status"])
        return str(content["status"])

    async def save_again(self, user: str, task_id: str) -> None:
        """Have a completed task's results copied now, not at their next try."""
        await self._answered(user, "POST", f"/v1/tasks/{task_id}/retry-save")

    async def _answered(
        self,
        user: str,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        final: frozenset[int] = frozenset(),
    ) -> tuple[int, Any]:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        status, content, pause = 0, None, PAUSE_SECONDS
        sent = {"Authorization": f"Bearer {self._tokens[user]}", **(headers or {})}
        while time.monotonic() < give_up_at:
            try:
                async with self._session.request(method, self._url + path, json=body, headers=sent) as answer:
                    status, content = answer.status, await answer.json(content_type=None)
            except (aiohttp.ClientError, TimeoutError):
                status, content = 0, None
            if 200 <= status < 300 or status in final:
                return status, content
            if status and status not in NOT_NOW:
                self.surprises.append(f"{method} {path} was answered with {status}: {content}")
            self.repeats += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_LONGEST)
        raise AssertionError(f"Nobody answered {method} {path} within {PATIENCE_SECONDS:g} s: {status} {content}")
