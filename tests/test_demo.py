"""`./dev demo`, as a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_demo_shows_that_a_kill_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "200"}
    started = time.monotonic()
    shown = subprocess.run(
        [sys.executable, ROOT / "scripts/demo.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert time.monotonic() - started < 45
    assert "kill -9: the server is gone (status -9)" in shown.stdout
    assert "All 40 jobs have ended, 0 failed. Results: 40 of 40, 0 of them twice." in shown.stdout
    calls = re.search(r"The provider was called (\d+) times", shown.stdout)
    assert calls
    assert int(calls[1]) >= 80
    assert "longtake jobs list" in shown.stdout
    assert tempfile.gettempdir() not in shown.stdout.split("longtake jobs list")[0]
    assert list(tmp_path.glob("longtake-demo-*")) == []
