"""What both of KIE's APIs share: the account with its key, its limits and its callbacks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from longtake.adapters.providers import kie_callbacks
from longtake.adapters.providers.calls import ProviderCalls
from longtake.adapters.providers.kie_envelope import GENERATION_FAILED, OK, error_of, read_envelope, task_id_of
from longtake.adapters.providers.provider import (
    Accepted,
    Failed,
    GenerationRequest,
    Provider,
    Running,
    Strange,
    Succeeded,
)
from longtake.clock import Clock, SystemClock
from longtake.engine.lanes import Lane

if TYPE_CHECKING:
    from longtake.adapters.net import HttpClient

KEY_SETTING = "kie_api_key"
WEBHOOK_KEY_SETTING = "kie_webhook_key"
#: KIE's documents name 24 hours and 14 days. A fresh address is a query away, so the shortest is no loss.
URL_SECONDS = 600.0


class KieAccount(Provider):
    """Submits and queries in KIE's envelope; an API adds its paths, its request and its states."""

    account = "kie"
    submits = "once"
    takes_references = "url"
    # Limits of the account, whichever API a request goes to.
    submit_lane = Lane("kie.submit", rate=(20, 10.0), burst=10)
    query_lane = Lane("kie.query", rate=(10, 1.0))
    running_limit = 100
    create_path: ClassVar[str]
    query_path: ClassVar[str]

    def __init__(
        self,
        client: HttpClient,
        base_url: str,
        key: Callable[[], str],
        webhook_key: Callable[[], str] = str,
        clock: Clock | None = None,
    ) -> None:
        self._webhook_key = webhook_key
        self._calls = ProviderCalls(
            client, self.name, base_url, key, key_setting=KEY_SETTING, key_header=_bearer, clock=clock or SystemClock()
        )

    @property
    def configured(self) -> bool:
        return self._calls.configured

    async def submit(self, request: GenerationRequest) -> Accepted:
        answer = await self._calls.submit(self.create_path, self._content(request))
        envelope = read_envelope(self._calls, answer, submitting=True)
        if envelope.code != OK:
            raise error_of(self._calls, envelope, submitting=True)
        task_id = task_id_of(envelope.data)
        if task_id is None:
            raise self._calls.unknown("it calls the request accepted and names no task.")
        return Accepted(task_id)

    async def query(self, provider_task_id: str) -> Running | Succeeded | Failed | Strange:
        answer = await self._calls.query(self.query_path, {"taskId": provider_task_id})
        envelope = read_envelope(self._calls, answer, submitting=False)
        if envelope.code == GENERATION_FAILED:
            return Failed(str(GENERATION_FAILED), self._calls.words(envelope.message) or "The generation failed.")
        if envelope.code != OK:
            raise error_of(self._calls, envelope, submitting=False)
        record = envelope.data
        # An answer about another task must not end this one.
        if not isinstance(record, dict) or task_id_of(record) not in {None, provider_task_id}:
            return Strange("no record of this task")
        return self._state(record)

    def callback_task_id(self, body: Any) -> str | None:
        return kie_callbacks.callback_task_id(body)

    def verify_callback(self, headers: Mapping[str, str], provider_task_id: str, now: datetime | None = None) -> bool:
        key = self._webhook_key().strip()
        return not key or kie_callbacks.is_signed(headers, provider_task_id, key, now or self._calls.clock.now())

    @abstractmethod
    def _content(self, request: GenerationRequest) -> dict[str, Any]:
        """Return the body of a submit."""

    @abstractmethod
    def _state(self, record: dict[str, Any]) -> Running | Succeeded | Failed | Strange:
        """Return what a record says about its task."""

    def _addresses(self, request: GenerationRequest) -> list[str]:
        addresses = [one.url for one in request.references if one.url]
        if len(addresses) != len(request.references):
            raise self._calls.refused("REFERENCE_MISSING", "A reference has no address that could be fetched.")
        return addresses


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
