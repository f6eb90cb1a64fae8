"""Checks the public address at the start, so that users are not the first to find dead callbacks and links."""

from __future__ import annotations

import structlog

from longtake.adapters.net import HttpClient
from longtake.db import Database
from longtake.errors import AddressRefused, LongtakeError, NetError
from longtake.services.alerts import Severity, raise_alert, resolve_alert

log = structlog.get_logger(__name__)

CODE = "PUBLIC_URL_UNREACHABLE"
SECONDS = 10.0
HTTP_OK = 200


async def check_public_address(client: HttpClient, database: Database, public_url: str) -> None:
    """Ask for our own health under the public address; raise or resolve an alert. Never keeps the server from running.

    Some networks do not let a machine reach itself from outside, so this is a warning and not an error.
    """
    try:
        answer = await client.request("GET", f"{public_url.rstrip('/')}/healthz", seconds=SECONDS)
        found = "" if answer.status == HTTP_OK else f"it answered {answer.status}"
    except AddressRefused:
        # A private address that requests may not go to: the operator who set it uses a private network.
        return
    except NetError as error:
        found = error.message
    try:
        if found:
            log.warning("the public address does not lead here", action="check", url=public_url, reason=found)
            message = f"LONGTAKE_PUBLIC_URL ({public_url}) does not lead to this server: {found}."
            await database.run(raise_alert, Severity.WARNING, CODE, message)
        else:
            await database.run(resolve_alert, CODE)
    except LongtakeError as error:
        log.warning("the check of the public address could not be written", action="check", code=error.code)
