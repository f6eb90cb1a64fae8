"""Migrations, forward and back, on either database.

A location is a package with a folder `migrations` of numbered files, each with `upgrade()` and `downgrade()`.
Locations run in the order in which they are given, so that a later one may need an earlier one's tables. The table
`longtake_migrations` names what has run. Each location goes its own way: the engine migrates alone, also in a database
that has the tables of the service.

Alembic's operations, and PostgreSQL's driver, are imported by the functions that use them: they would take half of a
command's time.
"""

import ast
import importlib.util
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy
from sqlalchemy import Column, Connection, MetaData, Table, Text
from sqlalchemy.pool import NullPool

from longtake.db import is_sqlite, postgresql_url, sqlite_path
from longtake.db.database import Transaction
from longtake.db.errors import RightsMissing, SchemaMismatch
from longtake.db.ownership import MIGRATION, FileOwnership

#: Any number will do, as long as all Longtake processes use the same.
MIGRATION_LOCK = 7_016_511_206
#: What a program needs that uses Longtake as a library. The service names all of its packages.
ENGINE = ("longtake.engine",)

applied_migrations = Table("longtake_migrations", MetaData(), Column("name", Text, primary_key=True))


@dataclass(frozen=True)
class Migration:
    """A file of a location."""

    label: str
    path: Path

    @property
    def name(self) -> str:
        """Return what the database remembers it by, such as `credits_0001`."""
        return f"{self.label}_{self.path.name[:4]}"

    def describe(self) -> str:
        """Return the name, and the first line of what the file says about itself."""
        first, *_rest = (ast.get_docstring(ast.parse(self.path.read_text())) or "").splitlines()
        return f"{self.name} {first}"

    def run(self, connection: Connection, *, up: bool) -> None:
        """Run it, and note that it has run, in one transaction."""
        from alembic.migration import MigrationContext  # noqa: PLC0415
        from alembic.operations import Operations  # noqa: PLC0415

        spec = importlib.util.spec_from_file_location(f"longtake_migration_{self.name}", self.path)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - known for a name that ends in .py
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        name = applied_migrations.c.name
        with Operations.context(MigrationContext.configure(connection)):
            if up:
                module.upgrade()
                connection.execute(applied_migrations.insert().values(name=self.name))
            else:
                module.downgrade()
                connection.execute(applied_migrations.delete().where(name == self.name))
        connection.commit()


@dataclass(frozen=True)
class MigrationStatus:
    """The newest migration of each location in the database and in this program, and what is missing, described."""

    current: list[str]
    latest: list[str]
    pending: list[str]

    @property
    def up_to_date(self) -> bool:
        """Say whether the tables are those this program expects."""
        return not self.pending

    def __str__(self) -> str:
        if self.up_to_date:
            return f"The database is up to date ({', '.join(self.latest)})."
        missing = ", ".join(one.split(" ", 1)[0] for one in self.pending)
        return f"The database is at {', '.join(self.current) or 'no migration at all'}; this program needs {missing}."


def migrate_up(url: str, locations: Sequence[str] = ENGINE) -> MigrationStatus:
    """Run the migrations of the locations that the database does not have; return where it is then."""
    with _connection(url) as connection:
        applied = _read_applied(connection)
        compare_schema(applied, locations)
        missing = [one for one in known_migrations(locations) if one.name not in applied]
        if missing:
            applied_migrations.create(connection, checkfirst=True)
        for migration in missing:
            migration.run(connection, up=True)
        return compare_schema(_read_applied(connection), locations)


def migrate_down(url: str, to: str = "base", locations: Sequence[str] = ENGINE) -> MigrationStatus:
    """Undo the migrations of a location that came after the given one, or with ``base`` those of all locations."""
    with _connection(url) as connection:
        applied = _read_applied(connection)
        compare_schema(applied, locations)
        for migration in _later_than(to, applied, locations):
            migration.run(connection, up=False)
        left = _read_applied(connection)
        if not left:
            applied_migrations.drop(connection, checkfirst=True)
        return compare_schema(left, locations)


def migration_status(url: str, locations: Sequence[str] = ENGINE) -> MigrationStatus:
    """Return which migrations the database has."""
    if is_sqlite(url) and not sqlite_path(url).exists():
        return compare_schema((), locations)
    with _connection(url, owned=False) as connection:
        return compare_schema(_read_applied(connection), locations)


def require_current_schema(url: str, locations: Sequence[str] = ENGINE) -> None:
    """Refuse to go on with tables that are not those this program was written for."""
    status = migration_status(url, locations)
    if not status.up_to_date:
        raise SchemaMismatch(str(status))


def read_applied(tx: Transaction | Connection) -> list[str]:
    """Return the names of all migrations that the database has, also those of locations not asked about."""
    return list(tx.execute(sqlalchemy.select(applied_migrations.c.name)).scalars())


def compare_schema(applied: Collection[str], locations: Sequence[str]) -> MigrationStatus:
    """Return what is missing; refuse a database that a newer version of one of the locations has migrated."""
    known = known_migrations(locations)
    names, labels = {one.name for one in known}, {one.label for one in known}
    newer = sorted(name for name in applied if name not in names and _label(name) in labels)
    if newer:
        raise SchemaMismatch(
            f"The database is at migration {newer[-1]}, which this version of Longtake does not know.",
            hint="Install the newer version of Longtake that made it.",
        )
    return MigrationStatus(
        current=list({one.label: one.name for one in known if one.name in applied}.values()),
        latest=list({one.label: one.name for one in known}.values()),
        pending=[one.describe() for one in known if one.name not in applied],
    )


def known_migrations(locations: Sequence[str]) -> list[Migration]:
    """Return the migrations of the locations, in the order in which they run."""
    return [
        Migration(location.rpartition(".")[2], path)
        for location in locations
        for path in sorted(_folder(location).glob("[0-9][0-9][0-9][0-9]_*.py"))
    ]


def with_migrations(packages: Iterable[str]) -> list[str]:
    """Return those of the packages that are locations."""
    return [one for one in packages if _place(one).is_dir()]


def _folder(location: str) -> Path:
    folder = _place(location)
    if not folder.is_dir():
        raise LookupError(f"The package {location} has no folder of migrations.")
    return folder


def _place(package: str) -> Path:
    """Return where a package's migrations would be, without importing more of it than the package at the top."""
    top, *rest = package.split(".")
    spec = importlib.util.find_spec(top)
    return Path(*((spec and spec.submodule_search_locations) or [])[:1], *rest, "migrations")


def _label(name: str) -> str:
    return name.rpartition("_")[0]


def _later_than(to: str, applied: Collection[str], locations: Sequence[str]) -> list[Migration]:
    """Return what is to be undone, the last one first."""
    known = known_migrations(locations)
    labels = {one.label for one in known}
    if to == "base":
        others = sorted({_label(name) for name in applied} - labels)
        if others:
            raise SchemaMismatch(
                f"The database also has the tables of {', '.join(others)}, which may need these.",
                hint="Name their packages as locations too.",
            )
        down = known
    elif to in {one.name for one in known}:
        down = [one for one in known if one.label == _label(to) and one.name > to]
    else:
        raise ValueError(f"There is no migration {to!r}. Name one, such as {known[0].name}, or base for all of them.")
    return [one for one in reversed(down) if one.name in applied]


def _read_applied(connection: Connection) -> list[str]:
    return read_applied(connection) if sqlalchemy.inspect(connection).has_table(applied_migrations.name) else []


@contextmanager
def _connection(url: str, *, owned: bool = True) -> Iterator[Connection]:
    """Open a connection that holds the lock of migrations: no other process migrates meanwhile."""
    ownership = None
    if is_sqlite(url):
        path = sqlite_path(url)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ownership = FileOwnership(path, MIGRATION) if owned else None
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            if not is_sqlite(url):
                connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
                connection.commit()
            yield connection
            connection.commit()
    except sqlalchemy.exc.DBAPIError as error:
        raise _translated(error, url) from error
    finally:
        engine.dispose()
        if ownership is not None:
            ownership.release()


def _engine(url: str) -> sqlalchemy.Engine:
    """Connect as the program does: SQLAlchemy reads some addresses differently, and quotes them in its errors."""
    if not is_sqlite(url):
        import psycopg  # noqa: PLC0415

        return sqlalchemy.create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(postgresql_url(url)), poolclass=NullPool
        )
    # Python's driver would begin no transaction before DDL: let it begin none at all, and begin them ourselves.
    engine = sqlalchemy.create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(sqlite_path(url), isolation_level=None), poolclass=NullPool
    )

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _translated(error: sqlalchemy.exc.DBAPIError, url: str) -> BaseException:
    if is_sqlite(url):
        return error
    import psycopg.errors  # noqa: PLC0415

    from longtake.db.postgresql_session import is_lost, translate  # noqa: PLC0415
    from longtake.db.roles import making_by_hand  # noqa: PLC0415

    if isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
        return RightsMissing(
            f"The database role may not run this migration. (PostgreSQL: {str(error.orig).splitlines()[0]})",
            hint=making_by_hand(url),
        )
    return translate(error) if is_lost(error) else error
