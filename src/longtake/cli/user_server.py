"""Which server a user's command talks to, and as whom.

LONGTAKE_SERVER first, then where the user is logged in, then the server that runs on this machine's data folder, and
if there is none, one that is started for the command. After that there is no difference: all is HTTP.
"""

import contextlib
import getpass
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar
from urllib.parse import urlsplit

from longtake.cli.embedded_server import own_server
from longtake.cli.login_file import read_login
from longtake.cli.operator_http import ask_server, error_of
from longtake.cli.output import print_note
from longtake.cli.token import make_token
from longtake.client import Client, LongtakeApiError, ServerUnreachable
from longtake.client.wire import CONNECT_SECONDS, checked_token
from longtake.errors import ServerUnreachable as NoServer
from longtake.errors import SettingsError
from longtake.server.server_file import FILE_NAME, ServerFile
from longtake.settings import Settings, load_settings
from longtake.settings.addresses import is_loopback_name
from longtake.settings.load import ENVIRONMENT

T = TypeVar("T")

#: Who uses this machine's own server.
LOCAL_USER = "local"
HOURS = 12.0
#: A command is a person who waits.
PATIENCE_SECONDS = 20.0
#: After so long without a first answer the person is told what the command waits for.
QUIET_SECONDS = 1.0
#: A server that was started for commands and is gone is not started again under the same address.
EMBEDDED_PATIENCE_SECONDS = 5.0
GRANT_REASON = "Whoever owns this machine pays the provider directly (`longtake` without a server)."
GRANTS_AT_MOST = 5
#: What a key is called here, by the beginning of its provider's name.
KEY_SETTINGS = {"kie": "kie_api_key", "gemini": "gemini_api_key"}
#: Where the server names a route, a command does the same.
HINTS = {
    "MODEL_UNKNOWN": "`longtake models` lists those there are.",
    "NOT_FOUND": "`longtake tasks list` lists yours.",
    "PARAMETER_INVALID": "`longtake models --json` shows each parameter with what it may be.",
    "STATE_CONFLICT": "Those that wait or run can be cancelled, those that failed or were cancelled retried.",
    "UNAUTHORIZED": "`longtake login --server URL` takes a new token.",
}


@dataclass(frozen=True)
class Reached:
    """A server that answers."""

    client: Client
    url: str
    because: str
    #: Set for the server of this machine; `embedded`: it was started by a command, and ends with it.
    server: ServerFile | None = None
    embedded: bool = False
    #: The token is the one in LONGTAKE_TOKEN.
    token_is_set: bool = False

    @cached_property
    def user(self) -> str:
        """The user's id, as the server knows it."""
        return self.client.me()["user_id"]

    def paid(self, call: Callable[[], T]) -> T:
        """Call; where nobody but the owner of this machine pays, the credits that are missing are given first."""
        for _time in range(GRANTS_AT_MOST):
            try:
                return call()
            except LongtakeApiError as error:
                missing = error.facts.get("price", 0) - error.facts.get("balance", 0)
                if error.code != "INSUFFICIENT_CREDITS" or self.server is None or not self.embedded or missing <= 0:
                    raise
            made_by = getpass.getuser()
            grant = {"user_id": LOCAL_USER, "amount": missing, "reason": GRANT_REASON, "by": made_by}
            ask_server(self.server, "credits.grant", grant)
        return call()

    def hint_for(self, error: LongtakeApiError) -> str:
        """Return what to do next, in terms of commands where this machine is concerned."""
        if self.server is not None and error.code == "INSUFFICIENT_CREDITS":
            return f"`longtake credits grant {LOCAL_USER} AMOUNT --reason WHY` gives some."
        if self.server is not None and error.code == "PROVIDER_NOT_CONFIGURED":
            return _key_hint(f"{error.message} {error.hint}") or error.hint
        if self.token_is_set and error.code == "UNAUTHORIZED":
            return "It is LONGTAKE_TOKEN that was refused: set another, or none, and `longtake login --server URL`."
        return HINTS.get(error.code, error.hint)


def _key_hint(told: str) -> str:
    names = [name for provider, name in KEY_SETTINGS.items() if provider in told]
    ways = [f"`longtake secrets set {name}` or LONGTAKE_{name.upper()}" for name in names]
    without = "Without any, `longtake sandbox` draws in a provider's place."
    return f"Set a provider's key: {', or '.join(ways)}. {without}" if ways else ""


@contextlib.contextmanager
def reach(hints: Mapping[str, str] | None = None, *, role: str = "user") -> Iterator[Reached]:
    """Yield the server to talk to; what it refuses is raised as one of Longtake's own errors.

    ``hints`` are the command's own words for some codes, where those for tasks would mislead. ``role`` is what the
    owner of this machine asks its own server as; anywhere else it is the token that says what one may do.
    """
    settings = load_settings()
    token = _token_of(settings)
    login = read_login()
    if settings.server:
        known = login.token if login and login.server == settings.server else ""
        if not (token or known):
            hint = f"Set LONGTAKE_TOKEN, or `longtake login --server {settings.server}`."
            raise SettingsError(f"There is no token for {settings.server}.", hint=hint)
        if token and not known:
            _require_trust(settings, settings.server, named_by=settings.source_of("server"))
        way = at_server(settings.server, token or known, "LONGTAKE_SERVER", token_is_set=bool(token))
    elif login is not None:
        way = at_server(login.server, token or login.token, "you are logged in there", token_is_set=bool(token))
    else:
        way = _at_this_machine(settings, token, role)
    with way as reached, _hinted(hints or {}):
        yield reached


def _token_of(settings: Settings) -> str:
    try:
        return checked_token(settings.token.get_secret_value())
    except ValueError as error:
        raise SettingsError(f"LONGTAKE_TOKEN is none: {error}.") from None


def _require_trust(settings: Settings, url: str, *, named_by: str) -> None:
    """Keep a token of the environment from a server that only a file names: whoever made the folder may have."""
    if settings.source_of("token") == ENVIRONMENT != named_by:
        hint = f"If you mean that server: LONGTAKE_SERVER={url}, or `longtake login --server {url}`."
        raise SettingsError(f"LONGTAKE_TOKEN is not sent to {url}, which {named_by} names.", hint=hint)


@contextlib.contextmanager
def at_server(
    url: str, token: str, because: str, *, token_is_set: bool = False, patience: float = PATIENCE_SECONDS
) -> Iterator[Reached]:
    """Yield a server somewhere, once it has answered: whoever waits for a wrong address is told so."""
    with Client(url, token, patience_seconds=patience) as client:
        reached = Reached(client, url, because, token_is_set=token_is_set)
        with _clearly(reached):
            with _told_when_silent(url, patience or CONNECT_SECONDS):
                _user = reached.user
            yield reached


@contextlib.contextmanager
def _told_when_silent(url: str, seconds: float) -> Iterator[None]:
    words = f"{url} does not answer; trying for {seconds - QUIET_SECONDS:.0f} s more."
    note = threading.Timer(QUIET_SECONDS, print_note, [words])
    note.daemon = True
    note.start()
    try:
        yield
    finally:
        note.cancel()


@contextlib.contextmanager
def _at_this_machine(settings: Settings, token: str, role: str) -> Iterator[Reached]:
    with own_server(settings) as (server, embedded):
        if token and not is_loopback_name(urlsplit(server.url).hostname or ""):
            _require_trust(settings, server.url, named_by=str(settings.data_dir / FILE_NAME))
        known = token or make_token(settings, LOCAL_USER, role, HOURS)
        because = "started for this command" if embedded else f"it runs on {settings.data_dir}"
        patience = EMBEDDED_PATIENCE_SECONDS if embedded else PATIENCE_SECONDS
        with Client(server.url, known, patience_seconds=patience) as client:
            reached = Reached(client, server.url, because, server, embedded, token_is_set=bool(token))
            with _clearly(reached):
                yield reached


@contextlib.contextmanager
def _hinted(hints: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except LongtakeApiError as error:
        if error.code not in hints:
            raise
        raise error_of({"code": error.code, "detail": error.message, "hint": hints[error.code]}) from error


@contextlib.contextmanager
def _clearly(reached: Reached) -> Iterator[None]:
    try:
        yield
    except ServerUnreachable as error:
        raise NoServer(f"{reached.url}: {error.message}", hint=error.hint) from error
    except LongtakeApiError as error:
        raise error_of({"code": error.code, "detail": error.message, "hint": reached.hint_for(error)}) from error
