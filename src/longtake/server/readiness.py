"""Whether this process can do its work now, and if not, why not."""

import asyncio
from collections.abc import Callable

from sqlalchemy import text

from longtake.db import Database, Transaction
from longtake.errors import LongtakeError
from longtake.http.problems import public_message

ANSWER_SECONDS = 2.0
OK = "ok"


class Readiness:
    """Checks the database, its schema and the worker. Simultaneous probes share one check."""

    def __init__(self, database: Database, schema: str, worker_state: Callable[[], str]) -> None:
        self._database = database
        self._schema = schema
        self._worker_state = worker_state
        self._look: asyncio.Task[str] | None = None

    async def checks(self) -> dict[str, str]:
        """Return `ok` for each part, or what is wrong with it."""
        version = await self._ask()
        database, schema = OK, OK
        if version.startswith("!"):
            database, schema = version[1:], "unknown while the database does not answer"
        elif version != self._schema:
            schema = f"the database is at {version or 'no migration'}, this program needs {self._schema}"
        return {"database": database, "schema": schema, "worker": self._worker_state()}

    async def _ask(self) -> str:
        """Return the schema's version, or what went wrong after an exclamation mark.

        A look that got no answer in time goes on by itself: a second one beside it would only take another
        connection from the work.
        """
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._read_version())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(self._look)
        except TimeoutError:
            return f"!the database did not answer within {ANSWER_SECONDS:g} s"

    async def _read_version(self) -> str:
        try:
            return await self._database.read(_version)
        except LongtakeError as error:
            return f"!{public_message(error)}"


def _version(tx: Transaction) -> str:
    return str(tx.execute(text("SELECT version_num FROM alembic_version")).scalar() or "")
