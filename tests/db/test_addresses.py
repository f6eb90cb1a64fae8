"""The password of a database's address is in no error, however wrong the address is."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from longtake import migrate_up, open_database
from longtake.db import postgresql
from longtake.db.migrate import migration_status
from longtake.errors import LongtakeError
from tests.db.notes import read_notes

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = "canary"
WRONG = {
    "nobody listens": f"postgresql://someone:{CANARY}@127.0.0.1:1/name",
    "host does not exist": f"postgresql://someone:{CANARY}@nowhere.invalid/name",
    "not percent-encoded": f"postgresql://someone:{CANARY}%zz@127.0.0.1:1/name",
    "a slash in the password": f"postgresql://someone:{CANARY}/x@127.0.0.1:1/name",
    "an at sign in the password": f"postgresql://someone:{CANARY}@x@127.0.0.1:1/name",
    "a password as a parameter": f"postgresql://someone@127.0.0.1:1/name?password={CANARY}&wrong=1",
    "port is no number": f"postgresql://someone:{CANARY}@127.0.0.1:port/name",
    "another database": f"mysql://someone:{CANARY}@127.0.0.1:1/name",
    "psycopg prefix": f"postgresql+psycopg://someone:{CANARY}@127.0.0.1:1/name",
}


def open_and_read(url: str) -> None:
    database = open_database(url)
    try:
        database.run_blocking(read_notes)
    finally:
        database.close()


@pytest.mark.parametrize("url", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("use", [open_and_read, migrate_up, migration_status])
def test_no_error_names_the_password(url: str, use: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "PATIENCE_SECONDS", 0.0)
    with pytest.raises(LongtakeError) as raised:
        use(url)
    # The whole traceback, with everything it was caused by, is what ends in a log.
    everything = "".join(traceback.format_exception(raised.value)) + raised.value.hint
    assert CANARY not in everything
