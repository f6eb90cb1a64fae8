"""Whether this process can do its work now, and if not, why not."""

import asyncio
from collections.abc import Callable, Sequence

from longtake.db import Database
from longtake.db.migrate import compare_schema, read_applied
from longtake.errors import LongtakeError, SchemaMismatch
from longtake.http.problems import public_message

ANSWER_SECONDS = 2.0
OK = "ok"
UNKNOWN = "unknown while the database does not answer"


class Readiness:
    """Checks the database, its schema and the worker. Simultaneous probes share one check."""

    def __init__(self, database: Database, locations: Sequence[str], worker_state: Callable[[], str]) -> None:
        self._database = database
        self._locations = locations
        self._worker_state = worker_state
        self._look: asyncio.Task[tuple[str, str]] | None = None

    async def checks(self) -> dict[str, str]:
        """Return `ok` for each part, or what is wrong with it."""
        database, schema = await self._ask()
        return {"database": database, "schema": schema, "worker": self._worker_state()}

    async def _ask(self) -> tuple[str, str]:
        """Return how the database and its schema are.

        A look that got no answer in time goes on by itself: a second one beside it would only take another
        connection from the work.
        """
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._check_schema())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(self._look)
        except TimeoutError:
            return f"the database did not answer within {ANSWER_SECONDS:g} s", UNKNOWN

    async def _check_schema(self) -> tuple[str, str]:
        try:
            status = compare_schema(await self._database.read(read_applied), self._locations)
        except SchemaMismatch as error:
            return OK, error.message
        except LongtakeError as error:
            return public_message(error), UNKNOWN
        return OK, OK if status.up_to_date else str(status)
