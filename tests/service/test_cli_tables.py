"""Tables on a terminal of 80 columns: one line for each row, whatever stands in it."""

from __future__ import annotations

import pytest
from rich.console import Console

from longtake.terminal import output

COLUMNS = ("id", "state", "lane", "subject")
ROW = ("0199c1f2-7a40-7cc3-98c4-dc0c0c07398f", "running", "kie-account-main", "a fox in the snow, " * 5)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(output, "_console", lambda: Console(width=80, highlight=False, markup=False, emoji=False))
    return monkeypatch


@pytest.mark.usefixtures("terminal")
def test_what_is_long_is_cut_and_what_is_short_stays_whole(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(COLUMNS, [ROW, ROW], nothing="", cut=("subject",))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith(f"{ROW[0]}  running  kie-account-main  a fox in")
    assert lines[1].endswith("…")


@pytest.mark.usefixtures("terminal")
def test_what_finds_no_room_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    columns, row = (*COLUMNS, "when", "created"), (*ROW, "in 12 min", "12 min ago")
    output.print_table(columns, [row], nothing="", cut=("subject",), spare=("lane", "created", "when"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "state", "subject", "when"]
    assert (len(lines), len(lines[1]) <= 80, lines[1].endswith("in 12 min")) == (2, True, True)


def test_a_pipe_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(COLUMNS, [ROW], nothing="", cut=("subject",), spare=("lane",))
    shown = capsys.readouterr().out
    assert all(value.strip() in shown for value in ROW)


def test_one_thing_is_not_many() -> None:
    assert [output.counted(number, "job") for number in (0, 1, 2, 1000)] == ["0 jobs", "1 job", "2 jobs", "1,000 jobs"]


def test_nobody_is_told_of_others_things() -> None:
    assert output.none_of("tasks", filtered=False) == "You have no tasks."
    assert output.none_of("tasks", filtered=True) == "None of your tasks match."
