"""Fixtures: every test that takes ``storage`` runs on a folder and on a real S3 server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from longtake.clock import new_id
from tests.storages import KINDS, local_storage, s3_storage

if TYPE_CHECKING:
    from pathlib import Path

    from longtake.adapters.storage import Storage
    from tests.s3_server import S3Server


@pytest.fixture
def s3_folder() -> str:
    """A folder of the bucket that nobody else uses."""
    return new_id()


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path, s3_folder: str) -> Storage:
    """An empty store of either kind."""
    if request.param == "local":
        return local_storage(tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    return s3_storage(server, s3_folder)
