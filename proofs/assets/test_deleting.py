"""A kill between the removal of rows and that of objects leaves the objects to the next server (X6)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from longtake.adapters.storage.keys import reference_key
from tests.api.stage import Api, picture, place_for
from tests.wait import wait_for

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_server_that_is_killed_between_rows_and_objects_leaves_them_to_the_next(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue("postgresql_url") if kind == "postgresql" else ""
    place = place_for(tmp_path, url, storage_url=f"file:{tmp_path}/objects")
    with place.server("--no-worker") as server:
        api = Api(place, server)
        upload = api.ask("POST", "/v1/references", body=picture(), headers={"Content-Type": "image/png"})
        assert api.ask("DELETE", f"/v1/assets/{upload.json['id']}").status == 204
        server.stop(signal.SIGKILL)
    file = tmp_path / "objects" / reference_key(upload.json["id"], "png")
    assert file.exists()
    with place.server() as server:
        wait_for(lambda: not file.exists(), "the file's end")
        assert Api(place, server).ask("GET", f"/v1/assets/{upload.json['id']}").status == 404
