"""Asking the running server, over loopback, with the token from server.json."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from longtake import errors
from longtake.errors import LongtakeError, ServerUnreachable
from longtake.server.server_file import ServerFile

LIMIT_SECONDS = 10.0
#: What reads whole tables may take its time.
SLOW_ACTIONS = {"credits.audit": 300.0}
HTTP_OK = 200


def ask_server(server: ServerFile, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Perform the action there; its errors are raised here as if they had happened here."""
    address = urlsplit(server.url)
    limit = SLOW_ACTIONS.get(action, LIMIT_SECONDS)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=limit)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"/v1/operator/{action}", json.dumps(dict(arguments)), headers)
        response = connection.getresponse()
        status, body = response.status, response.read()
    except TimeoutError:
        raise ServerUnreachable(f"The server at {server.url} did not answer within {limit:g} s.") from None
    except (OSError, http.client.HTTPException) as error:
        raise ServerUnreachable(f"The server at {server.url} cannot be reached: {error}.") from None
    finally:
        connection.close()
    content = _read(server, body)
    if status == HTTP_OK:
        return content
    raise error_of(content)


def _read(server: ServerFile, body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ServerUnreachable(f"What answers at {server.url} is not a Longtake server.")
    return content


def error_of(content: Mapping[str, Any]) -> LongtakeError:
    """Return a problem that a server told as the error it was there."""
    code, message = str(content.get("code", "")), str(content.get("detail", "The server refused."))
    known = {kind.code: kind for kind in _family(LongtakeError)}
    kind = known.get(code, errors.ServerError)
    error = kind(message, hint=str(content.get("hint", "")))
    # A problem only HTTP knows keeps its own code.
    error.code = code or kind.code
    return error


def _family(kind: type[LongtakeError]) -> list[type[LongtakeError]]:
    return [kind, *(member for child in kind.__subclasses__() for member in _family(child))]
