"""Which server a user's command talks to, and as which user.

In this order: LONGTAKE_SERVER, the server where the user is logged in, the server that is running on this machine's
data folder, a server started for the command. All of them are used over HTTP.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from longtake.cli.embedded_server import local_server
from longtake.cli.operator_access import ask_server, error_of
from longtake.client import Client, LongtakeApiError, ServerUnreachable
from longtake.client.wire import CONNECT_SECONDS, checked_token
from longtake.clock import SystemClock
from longtake.errors import NotFound, SettingsError
from longtake.server.errors import ServerUnreachable as NoServer
from longtake.server.server_file import FILE_NAME, ServerFile, write_private_file
from longtake.services.accounts.errors import TokensElsewhere
from longtake.settings import Settings, load_settings
from longtake.settings.checks import is_loopback_name
from longtake.settings.load import ENVIRONMENT
from longtake.terminal.output import on_terminal, print_note

T = TypeVar("T")

#: The user of this machine's own server.
LOCAL_USER = "local"
TOKEN_HOURS = 12.0
#: A person is waiting for the command.
PATIENCE_SECONDS = 20.0
#: After so long without a first answer, the command says what it is waiting for.
QUIET_SECONDS = 1.0
#: A server started for commands does not come back at the same address.
EMBEDDED_PATIENCE_SECONDS = 5.0
GRANT_REASON = "The owner of this machine pays the provider directly (`longtake` without a server)."
GRANTS_AT_MOST = 5
#: The secret that holds a key, by the beginning of its provider's name.
KEY_SETTINGS = {"kie": "kie_api_key", "gemini": "gemini_api_key"}
#: Hints that name a command where the server's own hint names a route.
HINTS = {
    "MODEL_UNKNOWN": "`longtake models` lists all models.",
    "NOT_FOUND": "`longtake tasks list` lists your tasks.",
    "PARAMETER_INVALID": "`longtake models --json` shows the allowed values of each parameter.",
    "STATE_CONFLICT": "Tasks that wait or run can be cancelled; tasks that failed or were cancelled can be retried.",
    "UNAUTHORIZED": "Log in with a new token: `longtake login --server URL`.",
}


@dataclass(frozen=True)
class Login:
    """A server, with the token or API key for it."""

    server: str
    token: str


def login_path() -> Path:
    """Return the file that keeps the log-in, in the folder that XDG names."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(folder) if folder else Path.home() / ".config") / "longtake" / "login.json"


def read_login() -> Login | None:
    """Return the log-in; None if the file is missing or unreadable."""
    try:
        content = json.loads(login_path().read_text(encoding="utf-8"))
        return Login(str(content["server"]), str(content["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_login(login: Login) -> None:
    """Write the log-in, readable by its owner alone."""
    write_private_file(login_path(), asdict(login))


def remove_login() -> bool:
    """Forget the log-in; return whether there was one."""
    with contextlib.suppress(FileNotFoundError):
        login_path().unlink()
        return True
    return False


@dataclass(frozen=True)
class ServerConnection:
    """A server that answers, and the client for it."""

    client: Client
    url: str
    because: str
    #: Set for this machine's own server. If it is `embedded`, a command started it, and it ends with the command.
    local: ServerFile | None = None
    embedded: bool = False
    #: Whether the token comes from LONGTAKE_TOKEN.
    token_is_set: bool = False

    @cached_property
    def user(self) -> str:
        """The user's id on the server."""
        return self.client.me()["user_id"]

    def whole_id(self, noun: Noun, given: str) -> str:
        """Return the id that ends like this."""
        return whole_ids(self.client, noun, [given])[0]

    def with_credits(self, call: Callable[[], T]) -> T:
        """Call; on an embedded server, where only the machine's owner pays, missing credits are granted first."""
        for _attempt in range(GRANTS_AT_MOST):
            try:
                return call()
            except LongtakeApiError as error:
                missing = error.facts.get("price", 0) - error.facts.get("balance", 0)
                if error.code != "INSUFFICIENT_CREDITS" or self.local is None or not self.embedded or missing <= 0:
                    raise
            made_by = getpass.getuser()
            grant = {"user_id": LOCAL_USER, "amount": missing, "reason": GRANT_REASON, "by": made_by}
            ask_server(self.local, "credits.grant", grant)
        return call()

    def hint_for(self, error: LongtakeApiError) -> str:
        """Return what to do next, naming commands instead of routes."""
        if self.local is not None and error.code == "INSUFFICIENT_CREDITS":
            return f"Grant some: `longtake credits grant {LOCAL_USER} AMOUNT --reason WHY`."
        if self.local is not None and error.code == "PROVIDER_NOT_CONFIGURED":
            return _key_hint(f"{error.message} {error.hint}") or error.hint
        if self.token_is_set and error.code == "UNAUTHORIZED":
            return "The server refused LONGTAKE_TOKEN. Set another, or unset it and use `longtake login --server URL`."
        return HINTS.get(error.code, error.hint)


def _key_hint(message: str) -> str:
    names = [name for provider, name in KEY_SETTINGS.items() if provider in message]
    ways = [f"`longtake secrets set {name}` or LONGTAKE_{name.upper()}" for name in names]
    without = "Without a key, use `longtake sandbox` in the provider's place."
    return f"Set a provider's key: {', or '.join(ways)}. {without}" if ways else ""


@contextlib.contextmanager
def connect(hints: Mapping[str, str] | None = None, *, role: str = "user") -> Iterator[ServerConnection]:
    """Yield the server to talk to; its refusals are raised as Longtake's own errors.

    ``hints`` replace the hints for some codes, where those about tasks would mislead. ``role`` applies to this
    machine's own server only; elsewhere the token decides what the user may do.
    """
    settings = load_settings()
    token = _token_of(settings)
    login = read_login()
    if settings.server:
        known = login.token if login and login.server == settings.server else ""
        if not (token or known):
            hint = f"Set LONGTAKE_TOKEN, or run `longtake login --server {settings.server}`."
            raise SettingsError(f"There is no token for {settings.server}.", hint=hint)
        if token and not known:
            _require_trust(settings, settings.server, named_by=settings.source_of("server"))
        route = connect_to(settings.server, token or known, "LONGTAKE_SERVER", token_is_set=bool(token))
    elif login is not None:
        route = connect_to(login.server, token or login.token, "you are logged in there", token_is_set=bool(token))
    else:
        route = _connect_locally(settings, token, role)
    with route as connection, _raise_own_errors(connection, hints or {}):
        yield connection


def _token_of(settings: Settings) -> str:
    try:
        return checked_token(settings.token.get_secret_value())
    except ValueError as error:
        raise SettingsError(f"LONGTAKE_TOKEN is not a token: {error}.") from None


def _require_trust(settings: Settings, url: str, *, named_by: str) -> None:
    """Do not send a token of the environment to a server that only a file names: the folder may be a stranger's."""
    if settings.source_of("token") == ENVIRONMENT != named_by:
        hint = f"If you mean that server, set LONGTAKE_SERVER={url} or run `longtake login --server {url}`."
        raise SettingsError(f"LONGTAKE_TOKEN is not sent to {url}, which {named_by} names.", hint=hint)


@contextlib.contextmanager
def connect_to(
    url: str, token: str, because: str, *, token_is_set: bool = False, patience: float = PATIENCE_SECONDS
) -> Iterator[ServerConnection]:
    """Yield the server at an address once it has answered, so that a wrong address is reported at once."""
    with Client(url, token, patience_seconds=patience) as client:
        connection = ServerConnection(client, url, because, token_is_set=token_is_set)
        with _raise_own_errors(connection):
            with _note_when_slow(url, patience or CONNECT_SECONDS):
                _user = connection.user
            yield connection


@contextlib.contextmanager
def _note_when_slow(url: str, seconds: float) -> Iterator[None]:
    sentence = f"{url} does not answer; trying for {seconds - QUIET_SECONDS:.0f} s more."
    note = threading.Timer(QUIET_SECONDS, print_note, [sentence])
    note.daemon = True
    note.start()
    try:
        yield
    finally:
        note.cancel()


@contextlib.contextmanager
def _connect_locally(settings: Settings, token: str, role: str) -> Iterator[ServerConnection]:
    with local_server(settings) as (server, embedded):
        if token and not is_loopback_name(urlsplit(server.url).hostname or ""):
            _require_trust(settings, server.url, named_by=str(settings.data_dir / FILE_NAME))
        own_token = token or make_token(settings, LOCAL_USER, role, TOKEN_HOURS)
        because = "started for this command" if embedded else f"it runs on {settings.data_dir}"
        patience = EMBEDDED_PATIENCE_SECONDS if embedded else PATIENCE_SECONDS
        with Client(server.url, own_token, patience_seconds=patience) as client:
            connection = ServerConnection(client, server.url, because, server, embedded, token_is_set=bool(token))
            with _raise_own_errors(connection):
                yield connection


@contextlib.contextmanager
def _raise_own_errors(connection: ServerConnection, hints: Mapping[str, str] | None = None) -> Iterator[None]:
    try:
        yield
    except ServerUnreachable as error:
        raise NoServer(f"{connection.url}: {error.message}", hint=error.hint) from error
    except LongtakeApiError as error:
        hint = (hints or {}).get(error.code) or connection.hint_for(error)
        raise error_of(error.code, error.message, hint) from error


def make_token(settings: Settings, user: str, role: str, hours: float) -> str:
    """Return a token that this machine's server accepts; raise TokensElsewhere if another issuer signs tokens."""
    # They bring cryptography, which a command with a token of its own does not need.
    from longtake.services.accounts.own_tokens import ExpectedClaims, mint, token_secret
    from longtake.services.vault.root_secret import RootSecret

    if settings.jwt_jwks:
        raise TokensElsewhere("Tokens are signed by the issuer whose keys LONGTAKE_JWT_JWKS names.")
    root = RootSecret.of(settings)
    return mint(
        token_secret(settings, lambda: root.derive("tokens")),
        ExpectedClaims(settings.jwt_issuer, settings.jwt_audience),
        user_id=user,
        role=role,
        now=SystemClock().now(),
        lifetime=timedelta(hours=hours),
    )


SHORT_LENGTH = 8
#: With fewer characters a typing error could easily name something else.
LEAST_LENGTH = 4
WHOLE_LENGTH = 36
SEARCHED = 200


@dataclass(frozen=True)
class Noun:
    """What an id names: its words in sentences, the hint that says where ids are listed, and the newest ones."""

    one: str
    many: str
    newest: Callable[[Client], Iterable[Any]]
    hint: str


def _own(one: str, newest: Callable[[Client], Iterable[Any]]) -> Noun:
    return Noun(one, f"{one}s", newest, f"`longtake {one}s list` lists your {one}s.")


TASK = _own("task", lambda client: client.tasks.list(limit=SEARCHED)["tasks"])
RUN = _own("run", lambda client: client.runs.list(limit=SEARCHED)["runs"])
ASSET = _own("asset", lambda client: client.assets.list(limit=SEARCHED)["assets"])
WEBHOOK = _own("webhook", lambda client: client.webhooks.list())


def deliveries_of(webhook_id: str) -> Noun:
    """Return what an id of this webhook's deliveries names."""
    hint = f"`longtake webhooks deliveries {webhook_id}` lists them."
    return Noun(
        "delivery",
        "deliveries",
        lambda client: client.webhooks.deliveries(webhook_id, limit=SEARCHED)["deliveries"],
        hint,
    )


def short(one_id: str) -> str:
    """Return the end of an id. Its beginning is a time, which ids of the same minute share."""
    return one_id[-SHORT_LENGTH:]


def shown_id(one_id: str) -> str:
    """Return an id for a table: its end on a terminal, all of it in a pipe."""
    return short(one_id) if on_terminal() else one_id


def whole_ids(client: Client, noun: Noun, given: Sequence[str]) -> list[str]:
    """Return the ids that end like these, each once. Whole ids are checked by the server."""
    known: list[str] = []
    if any(len(one) < WHOLE_LENGTH for one in given):
        known = [one["id"] for one in noun.newest(client)]
    return list(dict.fromkeys(one if len(one) >= WHOLE_LENGTH else match_end(noun, one, known) for one in given))


def match_end(noun: Noun, end: str, known: Sequence[str]) -> str:
    """Return the only id that ends like this; raise NotFound if there is none or more than one."""
    if len(end) < LEAST_LENGTH:
        raise NotFound(
            f"{end!r} is too short for the end of a {noun.one}'s id: type at least {LEAST_LENGTH} characters.",
            hint=noun.hint,
        )
    found = [one for one in known if one.endswith(end.lower())]
    if not found:
        raise NotFound(f"None of the newest {SEARCHED} {noun.many} has an id that ends with {end!r}.", hint=noun.hint)
    if len(found) > 1:
        raise NotFound(
            f"Several {noun.many} have ids that end with {end!r}: {', '.join(found)}.",
            hint="Type more characters of it.",
        )
    return found[0]
