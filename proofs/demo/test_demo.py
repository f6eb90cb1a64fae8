"""`./dev demo`, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_shows_three_tasks_that_survive_a_kill(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "200"}
    shown = subprocess.run(
        [sys.executable, ROOT / "scripts/demo.py", "--once"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "kill -9: the server is gone (status -9)" in shown.stdout
    assert "3 of 3 completed, 3 unread messages, 64 credits charged, 436 left, 0 held." in shown.stdout
    assert "KIE was asked for 2 tasks, 0 of them twice." in shown.stdout
    assert "The ledger, the balances, the holds and the tasks agree." in shown.stdout
    assert list(tmp_path.glob("longtake-demo-*")) == []
