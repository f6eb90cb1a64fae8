"""The public address is tried at the start; one that leads nowhere is an alert, and is resolved when it is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.service.processes import Place
from tests.wait import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def test_a_public_address_that_leads_nowhere_raises_an_alert_until_it_is_mended(tmp_path: Path) -> None:
    place = Place(tmp_path, {"LONGTAKE_ALLOW_ADDRESSES": "127.0.0.1/32", "LONGTAKE_PUBLIC_URL": "http://127.0.0.1:9"})
    with place.server_here() as server:

        def alerts() -> list[str]:
            return [alert["code"] for alert in server.operate("alerts.list").json["alerts"]]

        wait_for(lambda: "PUBLIC_URL_UNREACHABLE" in alerts(), "the alert")
        port = server.url.rpartition(":")[2]
    place.settings["LONGTAKE_PUBLIC_URL"] = f"http://127.0.0.1:{port}"
    place.settings["LONGTAKE_PORT"] = port
    with place.server_here() as server:
        resolved = {"state": "resolved"}
        found = wait_for(lambda: server.operate("alerts.list", **resolved).json["alerts"], "the end of the alert")
        assert [alert["code"] for alert in found] == ["PUBLIC_URL_UNREACHABLE"]
