"""What a call can end with besides its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class LongtakeApiError(Exception):
    """The server refused: a status, a stable `code`, a sentence, what to do next, and the request's id in its log."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        hint: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{message} [{code}]" if code else message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.request_id = request_id
        #: Seconds after which the server wants to be asked again; None when that would change nothing.
        self.retry_after = retry_after
        #: All members of the problem, a balance or a limit among them.
        self.facts = dict(facts or {})


class ServerUnreachable(LongtakeApiError):
    """No answer came. `sent` says whether the request may have arrived all the same."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, code="SERVER_UNREACHABLE", hint="Check the address, and that the server runs.")
        self.sent = sent


class DownloadFailed(LongtakeApiError):
    """The file cannot be had, or what arrived is not what was announced."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="DOWNLOAD_FAILED", hint="Ask for the task again: its answer has a new link.")
