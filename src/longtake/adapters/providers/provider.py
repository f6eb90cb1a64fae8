"""What every provider can be asked, and the only answers and errors that come back.

An adapter knows one wire format and nothing of tasks, jobs or databases. It repeats nothing: it says what happened,
and whoever asked decides. Errors are those of `longtake.errors` under ProviderError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

from longtake.engine.lanes import Lane


@dataclass(frozen=True, slots=True)
class Reference:
    """An image to start from, in the form that the provider takes: an address it can fetch, or the bytes."""

    content_type: str
    url: str | None = None
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What to make. Model, parameters and the field for references have the provider's own names."""

    model: str
    prompt: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    references: Sequence[Reference] = ()
    callback_url: str | None = None
    reference_field: str | None = None


@dataclass(frozen=True, slots=True)
class MediaBytes:
    """A file that came in the answer itself."""

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MediaUrl:
    """Where a file can be fetched for a while. The address may be signed: it is not shown."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider works on it, and calls it this."""

    provider_task_id: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider has made it at once."""

    files: Sequence[MediaBytes]


@dataclass(frozen=True, slots=True)
class Running:
    """Not done yet; `progress` from 0 to 1 if the provider tells, `word` is what it calls the state."""

    progress: float | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Done. Asking again gives fresh addresses; these work for `expires_in` seconds."""

    files: Sequence[MediaUrl]
    expires_in: float


@dataclass(frozen=True, slots=True)
class Failed:
    """It will never be done; `code` is the provider's word for the reason."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Strange:
    """The provider says something about the task that this adapter does not know: neither running nor ended."""

    word: str


class Provider(ABC):
    """One way of having media made. Names and limits are facts about it; `submit` and `query` ask it."""

    #: Stands in every task; never changed.
    name: ClassVar[str]
    #: Providers of one account share its key and its limit on running tasks.
    account: ClassVar[str]
    #: `once`: a second submit may be paid for twice, so an unknown one is not repeated.
    submits: ClassVar[Literal["once", "repeatable"]]
    #: Whether a submit answers with the media itself, or with the name of a task to ask about.
    answers: ClassVar[Literal["at once", "later"]] = "later"
    takes_references: ClassVar[Literal["url", "bytes"] | None]
    submit_lane: ClassVar[Lane]
    query_lane: ClassVar[Lane]
    #: Tasks the account may have running at once; None for no limit known.
    running_limit: ClassVar[int | None] = None

    @property
    @abstractmethod
    def configured(self) -> bool:
        """Say whether there is a key."""

    @abstractmethod
    async def submit(self, request: GenerationRequest) -> Accepted | Delivered:
        """Ask for media. Any error but SubmitUnknown means that nothing was accepted."""

    @abstractmethod
    async def query(self, provider_task_id: str) -> Running | Succeeded | Failed | Strange:
        """Ask how a task stands; also how to get a fresh address of a result."""

    def download_headers(self, url: str) -> dict[str, str]:  # noqa: ARG002 - most addresses need none
        """Return what must be sent along to fetch a result; nothing for an address that is not the provider's own."""
        return {}

    def callback_task_id(self, body: Any) -> str | None:  # noqa: ARG002 - most have no callbacks
        """Return the task that a callback's JSON speaks of. Nothing else in it is believed."""
        return None

    def verify_callback(
        self,
        headers: Mapping[str, str],  # noqa: ARG002 - most have no callbacks
        provider_task_id: str,  # noqa: ARG002
        now: datetime | None = None,  # noqa: ARG002
    ) -> bool:
        """Say whether a callback may come from the provider; True when it has no way to prove it."""
        return True
