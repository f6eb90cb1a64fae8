"""The interface of all providers: requests, answers and the `Provider` base class.

An adapter knows one wire format and nothing of tasks, jobs or databases. It never retries: it reports what happened,
and the caller decides. It raises only the errors of `longtake.errors` under ProviderError.
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
    """An image to start from, in the form that the provider takes: a URL that it can fetch, or the bytes."""

    content_type: str
    url: str | None = None
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """The media to make. Model, parameters and the field for references have the provider's own names."""

    model: str
    prompt: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    references: Sequence[Reference] = ()
    callback_url: str | None = None
    reference_field: str | None = None


@dataclass(frozen=True, slots=True)
class MediaBytes:
    """A file inside the answer itself."""

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MediaUrl:
    """A URL that serves a file for a while. It may be signed, so it is never shown."""

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider has accepted the request as this task."""

    provider_task_id: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider has answered with the media."""

    files: Sequence[MediaBytes]


@dataclass(frozen=True, slots=True)
class Running:
    """Not done yet. `progress` is from 0 to 1 if the provider reports it; `word` is its name for the state."""

    progress: float | None = None
    word: str = ""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Done. The URLs work for `expires_in` seconds; another query gives fresh ones."""

    files: Sequence[MediaUrl]
    expires_in: float


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed for good. `code` is the provider's word for the reason."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Strange:
    """A state that the adapter does not know: neither running nor ended."""

    word: str


class Provider(ABC):
    """One API that makes media. The class variables describe it; `submit` and `query` call it."""

    #: Stored with every task, so it must never change.
    name: ClassVar[str]
    #: Providers of one account share its key and its limit on running tasks.
    account: ClassVar[str]
    #: `once`: a second submit may cost twice, so an unknown one is not repeated.
    submits: ClassVar[Literal["once", "repeatable"]]
    #: Whether a submit answers with the media itself, or with a task to query.
    answers: ClassVar[Literal["at once", "later"]] = "later"
    takes_references: ClassVar[Literal["url", "bytes"] | None]
    submit_lane: ClassVar[Lane]
    query_lane: ClassVar[Lane]
    #: How many tasks the account may run at once; None if no limit is known.
    running_limit: ClassVar[int | None] = None

    @property
    @abstractmethod
    def configured(self) -> bool:
        """Return whether there is a key."""

    @abstractmethod
    async def submit(self, request: GenerationRequest) -> Accepted | Delivered:
        """Request media. Any error but SubmitUnknown means that nothing was accepted."""

    @abstractmethod
    async def query(self, provider_task_id: str) -> Running | Succeeded | Failed | Strange:
        """Return the task's state. Querying a finished task gives fresh URLs."""

    def download_headers(self, url: str) -> dict[str, str]:  # noqa: ARG002 - most addresses need none
        """Return the headers needed to fetch a result; none for a URL that is not the provider's own."""
        return {}

    def callback_task_id(self, body: Any) -> str | None:  # noqa: ARG002 - most have no callbacks
        """Return the id of the task that a callback is about. Nothing else in a callback is trusted."""
        return None

    def verify_callback(
        self,
        headers: Mapping[str, str],  # noqa: ARG002 - most have no callbacks
        provider_task_id: str,  # noqa: ARG002
        now: datetime | None = None,  # noqa: ARG002
    ) -> bool:
        """Return whether a callback may come from the provider; True if it has no way to prove it."""
        return True
