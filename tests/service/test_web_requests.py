"""What holds for every request to a real server: problems, hosts, tokens, sizes, ids."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING

import pytest

from longtake.server.middleware import BODY_LIMIT
from tests.wait import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.processes import Answer, Place, Server


def assert_problem(answer: Answer, status: int, code: str) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert (problem["status"], problem["code"], problem["type"]) == (status, code, "about:blank")
    assert problem["detail"].endswith(".")
    assert problem["request_id"] == answer.headers["x-request-id"]


def test_a_live_process_says_so_with_its_version(shared_server: Server) -> None:
    answer = shared_server.request("GET", "/healthz")
    assert (answer.status, answer.json["status"]) == (200, "alive")
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", answer.json["version"])


def test_a_ready_server_says_what_it_has_checked(shared_server: Server) -> None:
    answer = shared_server.request("GET", "/readyz")
    assert answer.status == 200
    assert answer.json["checks"] == {"database": "ok", "schema": "ok", "worker": "ok"}


def test_an_unknown_route_is_a_problem(shared_server: Server) -> None:
    assert_problem(shared_server.request("GET", "/nothing"), 404, "ROUTE_UNKNOWN")


def test_the_pages_that_load_scripts_from_elsewhere_are_off(shared_server: Server) -> None:
    assert shared_server.request("GET", "/docs").status == 404
    assert shared_server.request("GET", "/redoc").status == 404


def test_a_wrong_method_is_a_problem_that_names_the_right_one(shared_server: Server) -> None:
    answer = shared_server.request("GET", "/v1/operator/jobs.list")
    assert_problem(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", "", "127.0.0.2", "a b"]
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/operator/jobs.list", "/nothing"])
def test_a_foreign_host_is_misdirected_on_every_route(shared_server: Server, host: str, path: str) -> None:
    method = "POST" if path.startswith("/v1") else "GET"
    assert_problem(shared_server.request(method, path, headers={"Host": host}), 421, "HOST_UNKNOWN")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8484"])
def test_loopback_names_are_ours(shared_server: Server, host: str) -> None:
    assert shared_server.request("GET", "/healthz", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer ü"]
)
def test_without_the_token_nothing_is_told(shared_server: Server, header: str) -> None:
    value = header.format(token=shared_server.token).encode().decode("latin-1")
    answer = shared_server.request("POST", "/v1/operator/no.such", headers={"Authorization": value} if header else {})
    assert_problem(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert shared_server.token.encode() not in answer.body
    assert b"no.such" not in answer.body


def test_the_token_is_in_a_file_for_its_owner_alone_and_never_in_the_log(
    shared_place: Place, shared_server: Server
) -> None:
    assert shared_server.operate("jobs.list").status == 200
    assert stat.S_IMODE((shared_place.data / "server.json").stat().st_mode) == 0o600
    assert shared_server.token not in shared_server.log.read_text()


def test_an_action_answers_with_its_result(shared_server: Server) -> None:
    answer = shared_server.operate("lanes.list")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert {"default", "kie.submit", "gemini.query"} <= {lane["name"] for lane in answer.json["lanes"]}
    assert answer.headers["cache-control"] == "no-store"


def test_an_action_without_a_body_has_no_arguments(shared_server: Server) -> None:
    headers = {"Authorization": f"bearer {shared_server.token}"}
    assert shared_server.request("POST", "/v1/operator/lanes.list", headers=headers).status == 200


@pytest.mark.parametrize(
    ("action", "arguments", "status", "code"),
    [
        ("lanes.pause", {"names": ["nowhere"]}, 404, "NOT_FOUND"),
        ("lanes.pause", {"name": "nowhere"}, 422, "ACTION_ARGUMENT_INVALID"),
        ("lanes.paws", {}, 404, "ACTION_UNKNOWN"),
        ("lanes.set", {"name": "x", "rate_count": 1, "rate_seconds": 1, "burst": 2}, 422, "DEFINITION_INVALID"),
    ],
)
def test_refusals_have_their_status_and_code(
    shared_server: Server, action: str, arguments: dict[str, object], status: int, code: str
) -> None:
    answer = shared_server.operate(action, **arguments)
    assert_problem(answer, status, code)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"x"', b"\xff", b"{'a': 1}"])
def test_a_body_that_is_no_json_object_is_refused(shared_server: Server, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {shared_server.token}"}
    assert_problem(shared_server.request("POST", "/v1/operator/jobs.list", body, headers), 400, "JSON_INVALID")


def test_a_body_that_says_it_is_too_large_is_refused_unread(shared_server: Server) -> None:
    headers = {"Authorization": f"Bearer {shared_server.token}", "Content-Length": str(BODY_LIMIT + 1)}
    assert_problem(shared_server.request("POST", "/v1/operator/jobs.list", b"", headers), 413, "BODY_TOO_LARGE")


def test_a_body_that_does_not_say_its_length_is_counted(shared_server: Server) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(2 * BODY_LIMIT // 50_000):
            yield b" " * 50_000

    headers = {"Authorization": f"Bearer {shared_server.token}"}
    try:
        answer = shared_server.request("POST", "/v1/operator/jobs.list", endless(), headers)
    except (BrokenPipeError, ConnectionResetError):
        # The server may close while we are still sending: refused all the same.
        return
    assert_problem(answer, 413, "BODY_TOO_LARGE")


def test_a_callers_request_id_goes_through_to_the_answer_and_the_log(shared_server: Server) -> None:
    answer = shared_server.request("GET", "/nothing", headers={"X-Request-Id": "from-the-caller-1"})
    assert answer.headers["x-request-id"] == "from-the-caller-1"

    def logged() -> list[str]:
        return [line for line in shared_server.log.read_text().splitlines() if "from-the-caller-1" in line]

    # Written after the answer has been sent.
    line = json.loads(wait_for(logged, "the log line")[0])
    assert (line["event"], line["path"], line["status"]) == ("request", "/nothing", 404)


@pytest.mark.parametrize("given", ["", "has space", "x" * 101, "a\tb", 'quote"', "ü"])
def test_a_request_id_that_could_do_harm_is_replaced(shared_server: Server, given: str) -> None:
    value = given.encode().decode("latin-1")
    answer = shared_server.request("GET", "/healthz", headers={"X-Request-Id": value})
    assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers["x-request-id"])


def test_health_probes_do_not_fill_the_log(shared_server: Server) -> None:
    shared_server.request("GET", "/healthz", headers={"X-Request-Id": "a-probe"})
    shared_server.request("GET", "/nothing", headers={"X-Request-Id": "after-the-probe"})
    wait_for(lambda: "after-the-probe" in shared_server.log.read_text(), "the later line")
    assert "a-probe" not in shared_server.log.read_text()


def test_the_description_lists_the_routes(shared_server: Server) -> None:
    paths = shared_server.request("GET", "/openapi.json").json["paths"]
    assert {"/healthz", "/readyz", "/v1/operator/{action}", "/v1/keys", "/v1/keys/{key_id}"} <= set(paths)
