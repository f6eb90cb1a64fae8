"""`longtake webhooks`: created, tested, changed and deleted by command, and their deliveries."""

from __future__ import annotations

import http.server
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from longtake.cli import webhooks
from tests.service.cli_users import User
from tests.service.processes import Place, Server
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.conftest import Commands

UNKNOWN_ID = "0199c1f2-7a40-7cc3-98c4-dc0c0c07398f"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers with the status that the path names: /204, /500, /410."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        pass


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("home")
    allowed = {"LONGTAKE_ALLOW_ADDRESSES": "loopback", "XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "200"}
    return Place(folder, allowed)


@pytest.fixture(scope="module")
def server(home: Place) -> Iterator[Server]:
    with home.server_here() as running:
        yield running


@pytest.fixture
def longtake(
    home: Place, server: Server, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> Iterator[User]:
    assert server.url
    user = User(Place(tmp_path, {**home.settings, "LONGTAKE_DATA_DIR": str(home.data)}), commands, monkeypatch)
    yield user
    if left := [one["id"] for one in user("webhooks", "list", "--json").json["webhooks"]]:
        user("webhooks", "delete", *left, "--yes")


def test_a_webhook_is_created_listed_shown_changed_and_deleted(longtake: User, receiver: str) -> None:
    made = longtake("webhooks", "create", f"{receiver}/204", "--event", "key.*", "--description", "the shop")
    assert made.code == 0, made.errors
    secret = made.output.splitlines()[-1]
    assert (secret.startswith("whsec_"), "not shown again" in made.errors) == (True, True)
    [one] = longtake("webhooks", "list", "--json").json["webhooks"]
    assert (one["events"], one["description"], one["enabled"]) == (["key.*"], "the shop", True)
    end = one["id"][-8:]
    listed = longtake("webhooks", "list").output
    assert f"{one['id']}  enabled  never         {receiver}/204  key.*   the shop" in listed
    assert secret not in listed + longtake("webhooks", "show", end).output
    changed = longtake("webhooks", "change", end, "--disable", "--all-events", "--description", "", "--json").json
    assert (changed["enabled"], changed["events"], changed["description"]) == (False, [], "")
    assert "state         disabled\n" in longtake("webhooks", "show", end).output
    moved = longtake("webhooks", "change", end, "--enable", "--url", f"{receiver}/500", "--event", "task.*", "--json")
    assert (moved.json["url"], moved.json["events"], moved.json["enabled"]) == (f"{receiver}/500", ["task.*"], True)
    rotated = longtake("webhooks", "rotate", end)
    assert rotated.output.startswith("whsec_")
    assert rotated.output.strip() != secret
    unsure = longtake("webhooks", "delete", end)
    assert (unsure.code, "--yes" in unsure.errors) == (2, True)
    assert longtake("webhooks", "delete", end, "--yes").output == f"Deleted: {one['id']}.\n"
    assert longtake("webhooks", "list").errors == "You have no webhooks.\n"


def test_a_test_that_is_accepted_is_reported_with_its_answer(longtake: User, receiver: str) -> None:
    webhook = longtake("webhooks", "create", f"{receiver}/204", "--event", "key.*", "--json").json["id"]
    tested = longtake("webhooks", "test", webhook[-8:])
    assert (tested.code, tested.errors) == (0, "")
    sent = longtake("webhooks", "deliveries", webhook, "--json").json["deliveries"][0]
    assert tested.output.startswith(f"Delivered: {sent['id']}. It answered 204 after ")
    listed = longtake("webhooks", "deliveries", webhook[-8:], "--state", "delivered").output
    assert f"{sent['id']}  webhook.test  delivered  1      204" in listed
    shown = longtake("webhooks", "delivery", webhook[-8:], sent["id"][-8:])
    assert '"type": "webhook.test"' in shown.output
    again = longtake("webhooks", "redeliver", webhook, sent["id"][-8:], "--json").json
    assert (again["id"], again["state"], again["attempts"]) == (sent["id"], "delivered", 2)
    started = longtake("webhooks", "test", webhook, "--no-wait")
    newest = longtake("webhooks", "deliveries", webhook, "--limit", "1", "--json").json
    assert started.output == f"{newest['deliveries'][0]['id']}\n"
    assert newest["next"] == newest["deliveries"][0]["id"]


def test_a_test_that_fails_ends_with_the_reason_and_what_comes_next(longtake: User, receiver: str) -> None:
    webhook = longtake("webhooks", "create", f"{receiver}/500", "--event", "key.*", "--json").json["id"]
    failed = longtake("webhooks", "test", webhook)
    assert (failed.code, failed.output) == (1, "")
    assert failed.errors.endswith(" [WEBHOOK_FAILED]\n  It is not tried again.\n")
    assert "500" in failed.errors


def test_a_delivery_that_fails_again_says_when_it_is_tried_next(longtake: User, receiver: str) -> None:
    webhook = longtake("webhooks", "create", f"{receiver}/500", "--event", "key.*", "--json").json["id"]
    longtake("keys", "create", "an event")

    def tried() -> list[Any]:
        found = longtake("webhooks", "deliveries", webhook, "--json").json["deliveries"]
        return [one for one in found if one["attempts"]]

    [sent] = wait_for(tried, "the first try")
    again = longtake("webhooks", "redeliver", webhook, sent["id"])
    assert (again.code, "It is tried again in " in again.errors) == (1, True)
    assert "next in " in longtake("webhooks", "deliveries", webhook).output


def test_a_webhook_that_is_gone_says_why_it_is_disabled(longtake: User, receiver: str) -> None:
    webhook = longtake("webhooks", "create", f"{receiver}/410", "--event", "key.*", "--json").json["id"]
    longtake("keys", "create", "an event")

    def disabled() -> bool:
        return "disabled: it answered 410 Gone" in longtake("webhooks", "show", webhook).output

    wait_for(disabled, "the end of the webhook")
    refused = longtake("webhooks", "test", webhook)
    assert (refused.code, "[STATE_CONFLICT]" in refused.errors) == (1, True)
    assert "longtake webhooks change ID --enable" in refused.errors


def test_ctrl_c_says_where_the_result_will_be(longtake: User, receiver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    webhook = longtake("webhooks", "create", f"{receiver}/204", "--event", "key.*", "--json").json["id"]
    monkeypatch.setattr(webhooks, "time", SimpleNamespace(sleep=interrupt))
    ended = longtake("webhooks", "test", webhook)
    [sent] = longtake("webhooks", "deliveries", webhook, "--json").json["deliveries"]
    assert (ended.code, ended.output) == (130, "")
    assert f"`longtake webhooks delivery {webhook} {sent['id']}` shows the result." in ended.errors


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["create", "ftp://example.com/hook"], 1, "[ADDRESS_REFUSED]"),
        (["create", "http://10.0.0.8/hook"], 1, "[ADDRESS_REFUSED]"),
        (["create", "https://example.com/hook", "--event", "nothing.at.all"], 1, "[REQUEST_INVALID]"),
        (["show", UNKNOWN_ID], 1, "[NOT_FOUND]\n  `longtake webhooks list`"),
        (["test", "zzzz"], 1, "[NOT_FOUND]\n  `longtake webhooks list`"),
        (["change", UNKNOWN_ID], 2, "say what to change"),
        (["change", UNKNOWN_ID, "--event", "task.*", "--all-events"], 2, "either --event or --all-events"),
        (["deliveries", UNKNOWN_ID], 1, "[NOT_FOUND]"),
    ],
)
def test_what_cannot_be_is_refused_clearly(longtake: User, arguments: list[str], status: int, said: str) -> None:
    ended = longtake("webhooks", *arguments)
    assert (ended.code, said in ended.errors) == (status, True), ended.errors
