"""What migrations have in common: defaults, rights, rows that only their owner sees; each in both dialects.

Only migrations use this. What it makes must never change: a new need is a new function.
"""

from alembic import op
from sqlalchemy import TextClause, text

from longtake.db.dialects import POSTGRESQL

#: Made by the engine's first migration.
REFUSE_FUNCTION = "longtake_append_only"
#: For functions with the rights of their owner: with the caller's own temporary tables found last, never first.
SEARCH_PATH = "public, pg_catalog, pg_temp"
SQLITE_NOW = "strftime('%Y-%m-%d %H:%M:%f000', 'now')"
_OWN_FORM = "[12][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]"
#: The first PostgreSQL whose views can ask with the rights of their reader.
FIRST_WITH_INVOKER = (15,)
_MILLIS = "(CAST(strftime('%s', 'now') AS integer) * 1000 + CAST(substr(strftime('%f', 'now'), 4) AS integer))"
#: A UUIDv7 in plain SQL, for rows that triggers and other programs write.
SQLITE_NEW_ID = (
    f"lower(printf('%08x-%04x', {_MILLIS} >> 16, {_MILLIS} & 65535) || '-7' || substr(hex(randomblob(2)), 2)"
    " || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)
#: The same on PostgreSQL, where older servers have no function of their own for it.
POSTGRESQL_NEW_ID = """
CREATE FUNCTION longtake_new_id() RETURNS uuid LANGUAGE sql VOLATILE RETURN (
    SELECT (lpad(to_hex(((now.us / 1000) << 16) | 28672 | (((now.us % 1000) << 12) / 1000)), 16, '0')
            || right(replace(gen_random_uuid()::text, '-', ''), 16))::uuid
    FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS now
)
"""


def is_postgresql() -> bool:
    """Say which database is being migrated."""
    return op.get_bind().dialect.name == POSTGRESQL


def now_default() -> TextClause:
    """Return the default for times: rows that outside SQL writes have no Python to ask."""
    return text("longtake_now()") if is_postgresql() else text(f"({SQLITE_NOW})")


def uuid_default() -> TextClause:
    """Return the default for identifiers: they sort among those of ``longtake.clock.new_id`` by when they were made."""
    return text("longtake_new_id()" if is_postgresql() else f"({SQLITE_NEW_ID})")


def partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    """Make an index over some of the rows."""
    op.create_index(name, table, columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


def engine_only(*tables: str) -> None:
    """Let the program use the tables, and no user's request."""
    if is_postgresql():
        for table in tables:
            op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO longtake_engine")


def own_rows(*tables: str) -> None:
    """Let a user's request read rows whose ``user_id`` is its own, and the program all."""
    engine_only(*tables)
    if not is_postgresql():
        return
    for table in tables:
        op.execute(f"GRANT SELECT ON {table} TO longtake_api")
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY {table}_engine ON {table} TO longtake_engine USING (true) WITH CHECK (true)")
        # An empty or missing setting matches no row: user ids are never empty.
        op.execute(
            f"CREATE POLICY {table}_own ON {table} FOR SELECT TO longtake_api"
            f" USING (user_id = nullif(current_setting('longtake.user', true), ''))"
        )


def append_only(*tables: str) -> None:
    """Refuse every UPDATE, DELETE and TRUNCATE, also to the owner."""
    for table in tables:
        for verb in ("UPDATE", "DELETE"):
            refuse(verb, table, f"{table}_no_{verb.lower()}")
        if is_postgresql():
            op.execute(
                f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION {REFUSE_FUNCTION}()"
            )


def refuse(verb: str, table: str, trigger: str) -> None:
    """Refuse every UPDATE or DELETE of a row."""
    body = (
        f"FOR EACH ROW EXECUTE FUNCTION {REFUSE_FUNCTION}()"
        if is_postgresql()
        else f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    )
    op.execute(f"CREATE TRIGGER {trigger} BEFORE {verb} ON {table} {body}")


def create_views(**views: str) -> None:
    """Make views that the program may read. They ask with the rights of their reader, where PostgreSQL knows that."""
    version = op.get_bind().dialect.server_version_info or (0,)
    options = " WITH (security_invoker = true)" if is_postgresql() and version >= FIRST_WITH_INVOKER else ""
    for name, query in views.items():
        op.execute(f"CREATE VIEW {name}{options} AS{query}")
        if is_postgresql():
            op.execute(f"GRANT SELECT ON {name} TO longtake_engine")


def day_ago() -> str:
    """Return SQL for the time a day before now."""
    return (
        "longtake_now() - interval '1 day'" if is_postgresql() else "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-1 day')"
    )


def sqlite_moment(text: str) -> str:
    """Return SQL for a time in the one form that rows may hold; NULL for what is none.

    SQLite lets an application write anything. A time in another form would sort wrongly, and nonsense in a job would
    keep all jobs of its queue from being read. Days that no month has are those of the next one: without a modifier
    SQLite would hand them on as they are.
    """
    return (
        f"CASE WHEN {text} GLOB '{_OWN_FORM}'"
        f" AND substr({text}, 1, 19) = strftime('%Y-%m-%d %H:%M:%S', {text}, '+0 seconds') THEN {text}"
        f" WHEN {text} GLOB '[12][0-9][0-9][0-9]-*' THEN strftime('%Y-%m-%d %H:%M:%f000', {text}, '+0 seconds') END"
    )
