"""The program in docs/engine.md is what a newcomer copies: it must run as it stands, on both databases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "engine.md"


def program() -> str:
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_program_has_fewer_than_40_lines() -> None:
    assert len(program().splitlines()) < 40


def test_the_program_runs(database_url: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program())
    # Twice, as a newcomer does.
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, script, database_url], capture_output=True, text=True, timeout=60, check=False
        )
        assert run.returncode == 0, run.stderr
        assert re.search(r"^[0-9a-f-]{36}: a red fox in snow\.png$", run.stdout, re.MULTILINE)
