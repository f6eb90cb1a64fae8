"""Who a caller is and what each role may do; plain data, so that a command has it without FastAPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from longtake.errors import Forbidden

LONGEST_USER_ID = 200
READ = "read"
GENERATE = "generate"
OPERATE = "operate"
ADMIN = "admin"
SCOPES = frozenset((READ, GENERATE, OPERATE, ADMIN))

#: What each role may do at most; a token or a key can only narrow it.
SCOPES_OF_ROLE: dict[str, frozenset[str]] = {
    "user": frozenset((READ, GENERATE)),
    "service": frozenset((READ, GENERATE)),
    "operator": frozenset((READ, GENERATE, OPERATE)),
    "admin": SCOPES,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose token or key was checked. `user_id` owns whatever the request makes."""

    user_id: str
    role: str
    scopes: frozenset[str]
    key_id: str | None = None

    def require(self, scope: str) -> None:
        """Raise Forbidden unless the caller may do this."""
        if scope not in self.scopes:
            raise Forbidden(
                f"This needs the scope {scope!r}, which your token or key does not have.",
                hint=f"It has: {', '.join(sorted(self.scopes)) or 'none'}.",
            )

    def require_token(self, to_do: str) -> None:
        """Raise Forbidden for a user's API key: revoking it ends all it could do, so it sets up nothing that stays."""
        if self.key_id is not None and self.role != "service":
            raise Forbidden(f"An API key cannot {to_do}: revoking it must end what it can do.", hint="Use a token.")


def is_user_id(value: object) -> TypeGuard[str]:
    """Say whether it can be a user's id: 1 to 200 printable characters, not only space."""
    return isinstance(value, str) and bool(value.strip()) and len(value) <= LONGEST_USER_ID and value.isprintable()
