"""Callers, their roles and scopes. Plain data without FastAPI, so that commands start fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from longtake.services.accounts.errors import Forbidden

LONGEST_USER_ID = 200
READ = "read"
GENERATE = "generate"
OPERATE = "operate"
ADMIN = "admin"
SCOPES = frozenset((READ, GENERATE, OPERATE, ADMIN))

#: The most each role may do; a token or a key can only narrow it.
SCOPES_OF_ROLE: dict[str, frozenset[str]] = {
    "user": frozenset((READ, GENERATE)),
    "service": frozenset((READ, GENERATE)),
    "operator": frozenset((READ, GENERATE, OPERATE)),
    "admin": SCOPES,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `user_id` owns everything that the request creates."""

    user_id: str
    role: str
    scopes: frozenset[str]
    key_id: str | None = None

    def require(self, scope: str) -> None:
        if scope not in self.scopes:
            raise Forbidden(
                f"This request needs the scope {scope!r}, which your token or key does not have.",
                hint=f"It has: {', '.join(sorted(self.scopes)) or 'none'}.",
            )

    def require_token(self, to_do: str) -> None:
        """Raise Forbidden for a user's API key, which must not set up anything that outlives its revocation."""
        if self.key_id is not None and self.role != "service":
            raise Forbidden(f"An API key cannot {to_do}, because that would outlive the key.", hint="Use a token.")


def is_user_id(value: object) -> TypeGuard[str]:
    """Return whether it is a valid user id: 1 to 200 printable characters, not only spaces."""
    return isinstance(value, str) and bool(value.strip()) and len(value) <= LONGEST_USER_ID and value.isprintable()
