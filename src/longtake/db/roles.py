"""Roles of PostgreSQL: who this program may run as, and what that role has to be allowed.

The program logs in as a plain role. For a user's request it takes on `longtake_api`, which row level security binds;
as a member of `longtake_engine` it sees all rows. A superuser would be bound by neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import psycopg.sql
from psycopg.conninfo import conninfo_to_dict

from longtake.db.postgresql_session import API_ROLE, translate
from longtake.db.urls import postgresql_url
from longtake.errors import RightsMissing, RoleTooPowerful

if TYPE_CHECKING:
    from collections.abc import Iterable

ENGINE_ROLE = "longtake_engine"
CONNECT_SECONDS = 10
#: From here on being a member, inheriting and taking on are three rights.
SEPARATE_RIGHTS = 160_000
#: Both names count: a superuser that took on another role at log-in can put it down again.
UNBOUND = """
SELECT rolname FROM pg_roles WHERE (rolsuper OR rolbypassrls) AND rolname IN (session_user, current_user, %s) LIMIT 1
"""


@dataclass(frozen=True)
class Rights:
    """What a role may do with those that were made for this program."""

    role: str
    takes_on_api: bool
    inherits_engine: bool


def require_bound_role(url: str) -> None:
    """Refuse a role for which row level security does not hold."""
    with connected(url) as connection:
        row = connection.execute(UNBOUND, (API_ROLE,)).fetchone()
    if row is not None:
        raise RoleTooPowerful(
            f"The role {row[0]!r} is a superuser or bypasses row level security, which keeps users' rows apart."
        )


def require_rights(url: str) -> None:
    """Refuse a role that could not take on what requests and jobs run as."""
    with connected(url) as connection:
        rights = read_rights(connection)
        version = connection.info.server_version
    if rights.takes_on_api and rights.inherits_engine:
        return
    missing = API_ROLE if not rights.takes_on_api else ENGINE_ROLE
    verb = "take on" if missing == API_ROLE else "use the rights of"
    raise RightsMissing(
        f"The database role {rights.role!r} may not {verb} {missing}.",
        hint=f"Let an administrator run once:{one_a_line(grant_statements(rights.role, version))}",
    )


def read_rights(connection: psycopg.Connection[tuple[object, ...]], role: str | None = None) -> Rights:
    """Read what a role may do (by default the one that is logged in); roles that are not there give no rights."""
    take_on = "SET" if connection.info.server_version >= SEPARATE_RIGHTS else "MEMBER"
    row = connection.execute(
        "SELECT name, coalesce(pg_has_role(name, to_regrole(%(api)s), %(take_on)s), false),"
        " coalesce(pg_has_role(name, to_regrole(%(engine)s), 'USAGE'), false)"
        " FROM (SELECT coalesce(%(role)s, current_user)::name AS name) AS asked",
        {"api": API_ROLE, "engine": ENGINE_ROLE, "take_on": take_on, "role": role},
    ).fetchone()
    assert row is not None  # noqa: S101 - a SELECT without a table has one row
    return Rights(str(row[0]), bool(row[1]), bool(row[2]))


def grant_statements(role: str, server_version: int) -> list[str]:
    """Return the SQL that gives a role what it needs; before PostgreSQL 16 inheriting belongs to the role itself."""
    grant = f"GRANT {API_ROLE}, {ENGINE_ROLE} TO {quoted(role)}"
    if server_version >= SEPARATE_RIGHTS:
        return [f"{grant} WITH INHERIT TRUE, SET TRUE;"]
    return [f"{grant};", f"ALTER ROLE {quoted(role)} INHERIT;"]


def quoted(name: str) -> str:
    """Return a name as it stands in SQL."""
    return psycopg.sql.Identifier(name).as_string(None)


def making_by_hand(url: str) -> str:
    """Return what an administrator runs, so that the role an address names can migrate; for any version."""
    role = str(conninfo_to_dict(postgresql_url(url)).get("user") or "your_role")
    statements = [
        f"CREATE ROLE {API_ROLE} NOLOGIN;",
        f"CREATE ROLE {ENGINE_ROLE} NOLOGIN;",
        f"GRANT {API_ROLE}, {ENGINE_ROLE} TO {quoted(role)};",
    ]
    return (
        "Let `longtake migrate up` do it, with an administrator's address in LONGTAKE_ADMIN_URL;"
        f" or let an administrator run once:{one_a_line(statements)}"
    )


def one_a_line(statements: Iterable[str]) -> str:
    """Return SQL as it is copied best."""
    return "".join(f"\n  {statement}" for statement in statements)


def connected(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """Open a connection for a few statements; its failures are our errors."""
    try:
        return psycopg.connect(postgresql_url(url), autocommit=True, connect_timeout=CONNECT_SECONDS)
    except psycopg.Error as error:
        raise translate(error) from error
