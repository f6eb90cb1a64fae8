"""Errors that a call can raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class LongtakeApiError(Exception):
    """The server refused the request: status, stable `code`, sentence, hint, and the request's id in its log."""

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
        #: Seconds to wait before the next attempt; None when repeating would not help.
        self.retry_after = retry_after
        #: All members of the problem, such as a balance or a limit.
        self.facts = dict(facts or {})


class ServerUnreachable(LongtakeApiError):
    """No answer arrived. `sent` tells whether the request may have reached the server."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, code="SERVER_UNREACHABLE", hint="Check the address, and that the server is running.")
        self.sent = sent


class DownloadFailed(LongtakeApiError):
    """The file is not available, or the bytes received are not the ones announced."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="DOWNLOAD_FAILED", hint="Get the task again: its answer has a new link.")
