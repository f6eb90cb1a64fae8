"""Roles of PostgreSQL: which the program needs, checks of their rights, and their creation by an administrator.

The program logs in as a plain role. For a user's request it takes on `longtake_api`, which row level security binds;
as a member of `longtake_engine` it sees all rows. A superuser would be bound by neither.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
import psycopg.errors
import psycopg.sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from longtake.db import is_sqlite, postgresql_url
from longtake.db.errors import DatabaseUnavailable, RightsMissing, RoleTooPowerful
from longtake.db.migrate import MIGRATION_LOCK
from longtake.db.postgresql_session import API_ROLE, translate
from longtake.errors import SettingsError

ENGINE_ROLE = "longtake_engine"
CONNECT_SECONDS = 10
#: From here on being a member, inheriting and taking on are three rights.
SEPARATE_RIGHTS = 160_000
#: Both names count: a superuser that took on another role at log-in can put it down again.
UNBOUND = """
SELECT rolname FROM pg_roles WHERE (rolsuper OR rolbypassrls) AND rolname IN (session_user, current_user, %s) LIMIT 1
"""
#: Stands for the password wherever a statement is shown.
PASSWORD = "'…'"  # noqa: S105 - the very opposite of one
#: Ours are those that the engine's role was granted, and the one that says which migrations have run.
FOREIGN_TABLES = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
  AND (relname = 'longtake_migrations' OR EXISTS (SELECT FROM aclexplode(relacl) WHERE grantee = to_regrole(%s)))
  AND relowner <> to_regrole(quote_ident(%s)) ORDER BY relname
"""
FOREIGN_FUNCTIONS = """
SELECT oid::regprocedure::text FROM pg_proc
WHERE pronamespace = 'public'::regnamespace
  AND (proname LIKE 'longtake\\_%%' OR proname = 'fix_stuck_pending_migrations')
  AND proowner <> to_regrole(quote_ident(%s)) ORDER BY 1
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


@dataclass(frozen=True)
class Wanted:
    """The role and the database an address names."""

    role: str
    database: str
    password: str = ""


@dataclass(frozen=True)
class Found:
    """What the server has of it already; nothing, if it could not be asked."""

    server_version: int = SEPARATE_RIGHTS
    roles: frozenset[str] = frozenset()
    #: The role may take on the one, and has the rights of the other.
    is_member: bool = False
    database_owner: str | None = None
    #: The administrator may give things to the role.
    may_give: bool = True


@dataclass(frozen=True)
class Step:
    """A statement, and what there is once it has run; without words for what is undone again."""

    statement: str
    made: str = ""


def set_up_roles(admin_url: str, url: str) -> list[str]:
    """Make all that PostgreSQL must have before the first migration; return what was made, in words.

    Everything missing is decided before anything is made, so where the administrator's rights end the rest can be shown
    as SQL. A second run finds nothing to do.
    """
    wanted = wanted_by(url)
    with _administrator(admin_url, wanted) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        made = _take(connection, missing_steps(find(connection, wanted), wanted), wanted)
    with _administrator(admin_url, wanted, wanted.database) as connection:
        return made + _take(connection, handing_over(connection, wanted), wanted)


def wanted_by(url: str) -> Wanted:
    """Read role and database out of the address; it has to name a role of its own."""
    if is_sqlite(url):
        raise SettingsError("A SQLite file has no roles.", hint="--admin-url is for PostgreSQL only.")
    parts = conninfo_to_dict(postgresql_url(url))
    role = str(parts.get("user") or "")
    if not role or role in {API_ROLE, ENGINE_ROLE}:
        raise SettingsError(
            "The database address names no role of its own to log in as.",
            hint="Example: LONGTAKE_DATABASE_URL=postgresql://longtake:password@localhost/longtake",
        )
    return Wanted(role, str(parts.get("dbname") or role), str(parts.get("password") or ""))


def find(connection: psycopg.Connection[Any], wanted: Wanted) -> Found:
    """Read which roles there are; a role that row level security does not bind is refused, not changed."""
    names = [API_ROLE, ENGINE_ROLE, wanted.role]
    rows = connection.execute(
        "SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = ANY(%s)", (names,)
    ).fetchall()
    for name, unbound in rows:
        if unbound:
            raise RoleTooPowerful(
                f"The role {name!r} exists, and is a superuser or bypasses row level security.",
                hint=f"Name another, or let an administrator run: ALTER ROLE {quoted(name)} NOSUPERUSER NOBYPASSRLS;",
            )
    roles = frozenset(name for name, _unbound in rows)
    owner = connection.execute(
        "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = %s", (wanted.database,)
    ).fetchone()
    rights = read_rights(connection, wanted.role) if roles == frozenset(names) else None
    return Found(
        server_version=connection.info.server_version,
        roles=roles,
        is_member=rights is not None and rights.takes_on_api and rights.inherits_engine,
        database_owner=owner and owner[0],
        may_give=_may_give(connection, wanted.role if wanted.role in roles else None),
    )


def missing_steps(found: Found, wanted: Wanted) -> list[Step]:
    """Decide what is to be made, in order."""
    role, database = quoted(wanted.role), quoted(wanted.database)
    steps = [
        Step(f"CREATE ROLE {name} NOLOGIN;", f"role {name}")
        for name in (API_ROLE, ENGINE_ROLE)
        if name not in found.roles
    ]
    if wanted.role not in found.roles:
        password = f" PASSWORD {PASSWORD}" if wanted.password else ""
        steps.append(Step(f"CREATE ROLE {role} LOGIN{password};", f"role {wanted.role}"))
    if not found.is_member:
        first, *further = grant_statements(wanted.role, found.server_version)
        steps.append(Step(first, f"membership of {wanted.role} in {API_ROLE} and {ENGINE_ROLE}"))
        steps += [Step(statement) for statement in further]
    if found.database_owner is None:
        create = Step(f"CREATE DATABASE {database} OWNER {role};", f"database {wanted.database}")
        steps += _lent(create, role, found) if not found.may_give else [create]
    return steps


def handing_over(connection: psycopg.Connection[Any], wanted: Wanted) -> list[Step]:
    """Decide what the role lacks inside the database: a place for tables, and the tables that another role made."""
    role = quoted(wanted.role)
    steps = []
    may_make = connection.execute("SELECT has_schema_privilege(%s, 'public', 'CREATE')", (wanted.role,)).fetchone()
    if may_make == (False,):
        steps.append(Step(f"GRANT USAGE, CREATE ON SCHEMA public TO {role};", "the right to make tables"))
    tables = connection.execute(FOREIGN_TABLES, (ENGINE_ROLE, wanted.role)).fetchall()
    functions = connection.execute(FOREIGN_FUNCTIONS, (wanted.role,)).fetchall()
    steps += [Step(f"ALTER TABLE public.{quoted(name)} OWNER TO {role};", f"owner of {name}") for (name,) in tables]
    steps += [Step(f"ALTER FUNCTION {name} OWNER TO {role};", f"owner of {name}") for (name,) in functions]
    return steps


def _lent(step: Step, role: str, found: Found) -> list[Step]:
    """Let an administrator who is no superuser take on the role for one statement: only so may they give it things."""
    options = " WITH INHERIT FALSE, SET TRUE" if found.server_version >= SEPARATE_RIGHTS else ""
    return [Step(f"GRANT {role} TO CURRENT_USER{options};"), step, Step(f"REVOKE {role} FROM CURRENT_USER;")]


def _may_give(connection: psycopg.Connection[Any], role: str | None) -> bool:
    right = "SET" if connection.info.server_version >= SEPARATE_RIGHTS else "MEMBER"
    row = connection.execute(
        "SELECT rolsuper OR coalesce(pg_has_role(to_regrole(quote_ident(%s)), %s), false)"
        " FROM pg_roles WHERE rolname = current_user",
        (role, right),
    ).fetchone()
    return row == (True,)


def _administrator(admin_url: str, wanted: Wanted, database: str | None = None) -> psycopg.Connection[Any]:
    address = make_conninfo(postgresql_url(admin_url), **({"dbname": database} if database else {}))
    try:
        return psycopg.connect(address, autocommit=True, connect_timeout=CONNECT_SECONDS)
    except psycopg.Error as error:
        raise DatabaseUnavailable(
            f"PostgreSQL cannot be reached by the administrator's address. ({str(error).splitlines()[0]})",
            hint=by_hand(missing_steps(Found(), wanted)),
        ) from error


def _take(connection: psycopg.Connection[Any], steps: list[Step], wanted: Wanted) -> list[str]:
    """Run the steps; return what there is now that was not there before."""
    for number, step in enumerate(steps):
        try:
            connection.execute(_with_password(connection, step.statement, wanted).encode())
        except psycopg.errors.InsufficientPrivilege as error:
            raise RightsMissing(
                f"The administrator's role may not do this. (PostgreSQL: {str(error).splitlines()[0]})",
                hint=by_hand(steps[number:]),
            ) from error
        except psycopg.Error as error:
            raise translate(error) from error
    return [step.made for step in steps if step.made]


def _with_password(connection: psycopg.Connection[Any], statement: str, wanted: Wanted) -> str:
    """Put the password in as the server would keep it: the plain one must not stand in the server's log."""
    ending = f"{PASSWORD};"
    if not statement.endswith(ending):
        return statement
    kept = connection.pgconn.encrypt_password(wanted.password.encode(), wanted.role.encode()).decode()
    return f"{statement.removesuffix(ending)}'{kept}';"


def by_hand(steps: Iterable[Step]) -> str:
    """Return what an administrator has to run themselves."""
    return f"Let an administrator run once:{one_a_line(step.statement for step in steps)}"
