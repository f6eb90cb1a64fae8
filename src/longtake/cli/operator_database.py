"""An operator's actions on the database itself, where no server has the file."""

import asyncio
import contextlib
from collections.abc import Iterator

from longtake.cli.operator_access import Ask
from longtake.db.ownership import FileOwnership
from longtake.engine.engine import Engine
from longtake.logs import configure_logs
from longtake.server.open_database import open_for_command
from longtake.server.operator import perform
from longtake.services.vault.root_secret import RootSecret
from longtake.services.vault.vault import Vault
from longtake.settings import Settings


@contextlib.contextmanager
def directly(settings: Settings, ownership: FileOwnership | None) -> Iterator[Ask]:
    """Yield the way to ask the database; it is closed, and its file given back, at the end."""
    configure_logs("human", "warning")
    vault = Vault.of(settings, RootSecret.of(settings))
    with contextlib.closing(open_for_command(settings, ownership)) as database, asyncio.Runner() as runner:
        # It declares nothing and knows no kinds: what needs a kind's own code is left to a worker that has it.
        engine = Engine(database)
        yield lambda action, **arguments: runner.run(perform(engine, action, arguments, {"vault": vault}))
