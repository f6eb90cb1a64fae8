"""The pieces of the client, alone: patience, the stream's bytes, addresses, the choice of a model, files."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from longtake.client import DownloadFailed, LongtakeApiError, ServerUnreachable
from longtake.client._sync.client import choose_model
from longtake.client.download import PartFile, is_same_file
from longtake.client.errors import RetryBudget
from longtake.client.wire import EventStream, query, server_address

if TYPE_CHECKING:
    from pathlib import Path

    from longtake.client import Asset, Model


def refused(status: int, code: str = "", retry_after: float | None = None) -> LongtakeApiError:
    return LongtakeApiError("No.", status=status, code=code, retry_after=retry_after)


@pytest.mark.parametrize(
    ("error", "repeatable", "pause"),
    [
        (ServerUnreachable("away", sent=False), False, 0.1),
        (ServerUnreachable("lost", sent=True), True, 0.1),
        (ServerUnreachable("lost", sent=True), False, None),
        (refused(503, retry_after=5), True, 5.1),
        (refused(429, retry_after=2), True, 2.1),
        (refused(503, retry_after=5), False, None),
        (refused(503, "PROVIDER_NOT_CONFIGURED"), True, None),
        (refused(429, "TASKS_TOO_MANY"), True, None),
        (refused(409, "IDEMPOTENCY_KEY_IN_USE"), True, 1.0),
        (refused(500, retry_after=1), True, None),
        (refused(401), True, None),
        (refused(503, retry_after=60), True, None),
    ],
)
def test_what_is_repeated_and_when(error: LongtakeApiError, repeatable: bool, pause: float | None) -> None:
    patience = RetryBudget(30, chance=lambda: 0.5, monotonic=lambda: 0.0)
    if pause is None:
        with pytest.raises(LongtakeApiError) as raised:
            patience.pause(error, repeatable=repeatable)
        assert raised.value is error
    else:
        assert patience.pause(error, repeatable=repeatable) == pytest.approx(pause)


def test_pauses_grow_and_patience_ends_unless_something_went_well() -> None:
    now = 0.0
    patience = RetryBudget(30, chance=lambda: 0.5, monotonic=lambda: now)
    error = ServerUnreachable("away", sent=False)
    pauses = [patience.pause(error, repeatable=True) for _time in range(8)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    now = 29.0
    with pytest.raises(ServerUnreachable):
        patience.pause(error, repeatable=True)
    patience.renew()
    assert patience.pause(error, repeatable=True) == pytest.approx(0.1)


def test_a_request_that_may_have_arrived_stays_so_when_later_attempts_never_left() -> None:
    patience = RetryBudget(1, chance=lambda: 0.5, monotonic=lambda: 0.0)
    patience.pause(ServerUnreachable("broken off", sent=True), repeatable=True)
    error = ServerUnreachable("refused", sent=False)
    patience.pause(error, repeatable=True)
    assert error.sent


FRAMES: list[tuple[str, dict[str, Any]]] = [
    ("ready", {"cursor": "8.5"}),
    ("task.completed", {"cursor": "9.6", "type": "task.completed", "at": "T", "subject": "s", "data": {"a": "ä\n: x"}}),
    ("heartbeat", {"cursor": "9.7"}),
    ("reset", {"reason": "EVENTS_FORGOTTEN"}),
]


def written(line_end: str) -> bytes:
    text = "retry: 1000\n\n: a comment\n\n"
    for kind, content in FRAMES:
        identity = f"id: {content['cursor']}\n" if "cursor" in content else ""
        text += f"{identity}event: {kind}\ndata: {json.dumps(content)}\n\n"
    return text.replace("\n", line_end).encode()


@given(cuts=some.lists(some.integers(0, 400), max_size=12), line_end=some.sampled_from(["\n", "\r\n"]))
def test_a_stream_may_be_cut_anywhere(cuts: list[int], line_end: str) -> None:
    whole = written(line_end)
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    stream = EventStream()
    pieces = [whole[begin:end] for begin, end in itertools.pairwise(edges)]
    events = [event for piece in pieces for event in stream.feed(piece)]
    assert [event.type for event in events] == [kind for kind, _content in FRAMES]
    assert [event.cursor for event in events] == ["8.5", "9.6", "9.7", None]
    assert (events[1].at, events[1].subject, events[1].data) == ("T", "s", {"a": "ä\n: x"})
    assert events[3].data == {"reason": "EVENTS_FORGOTTEN"}


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    stream = EventStream()
    stream.feed(b"x" * 900_000)
    with pytest.raises(ValueError, match="too long"):
        stream.feed(b"x" * 900_000)


@pytest.mark.parametrize("address", ["", "media.example.com", "ftp://x", "https://u:p@x.org", "http://x.org?a=b"])
def test_what_is_no_address_of_a_server_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        server_address(address)
    assert server_address(" https://x.org/media/ ") == "https://x.org/media"


def test_queries_leave_out_what_is_not_wanted() -> None:
    assert query(a=None, b=[], c=["x", "y z"], d=0) == "?c=x&c=y+z&d=0"
    assert query() == ""


def model(name: str, kind: str, *, available: bool = True, references: tuple[int, int] = (0, 0)) -> Model:
    least, most = references
    facts = {"name": name, "type": kind, "available": available, "provider": "kie"}
    return cast("Model", {**facts, "references": {"least": least, "most": most}})


MODELS = [
    model("asleep", "image", available=False),
    model("plain", "image"),
    model("edit", "image", references=(1, 4)),
    model("clip", "video"),
]


@pytest.mark.parametrize(
    ("kind", "name", "references", "chosen"),
    [
        (None, None, 0, ("image", "plain")),
        (None, None, 2, ("image", "edit")),
        ("video", None, 0, ("video", "clip")),
        (None, "clip", 0, ("video", "clip")),
        ("image", "clip", 0, ("image", "clip")),
        (None, "nobody", 0, ("image", "nobody")),
    ],
)
def test_the_first_model_that_fits_is_taken(
    kind: str | None, name: str | None, references: int, chosen: tuple[str, str]
) -> None:
    assert choose_model(MODELS, kind, name, references) == chosen


def test_that_nothing_can_be_used_is_said_with_the_reason() -> None:
    with pytest.raises(LongtakeApiError) as without_key:
        choose_model(MODELS[:1], "image", None, 0)
    assert (without_key.value.code, "kie" in without_key.value.hint) == ("PROVIDER_NOT_CONFIGURED", True)
    with pytest.raises(LongtakeApiError) as without_model:
        choose_model(MODELS, "video", None, 3)
    assert without_model.value.code == "MODEL_UNKNOWN"


def asset(content: bytes, **changes: Any) -> Asset:
    known = {"id": "a", "size": len(content), "checksum": hashlib.sha256(content).hexdigest()}
    return cast("Asset", {**known, **changes})


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "fox.png"
    with PartFile(target) as file:
        file.write(b"one")
        assert not target.exists()
        file.write(b"two")
        assert file.keep(asset(b"onetwo"), None) == target
    assert target.read_bytes() == b"onetwo"
    assert [path.name for path in target.parent.iterdir()] == ["fox.png"]
    assert is_same_file(asset(b"onetwo"), target)
    assert not is_same_file(asset(b"other"), target)


@pytest.mark.parametrize(
    ("facts", "announced"),
    [({"size": 7}, None), ({"checksum": "0" * 64}, None), ({"size": None, "checksum": None}, "9")],
)
def test_what_is_not_what_was_announced_leaves_nothing(
    tmp_path: Path, facts: dict[str, Any], announced: str | None
) -> None:
    with PartFile(tmp_path / "fox.png") as file:
        file.write(b"onetwo")
        with pytest.raises(DownloadFailed):
            file.keep(asset(b"onetwo", **facts), announced)
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "fox.png"
    with PartFile(target) as file:
        file.write(b"mine")
        # Somebody else is quicker.
        target.write_bytes(b"theirs")
        with pytest.raises(FileExistsError):
            file.keep(asset(b"mine"), None)
    assert target.read_bytes() == b"theirs"
    with pytest.raises(FileExistsError), PartFile(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["fox.png"]
