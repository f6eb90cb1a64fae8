"""The README, as a newcomer pastes it: every block in order, in one shell."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
INSTALL = "./dev run true && . .venv/bin/activate"
ENDS = "kill %1 %2"
PATIENCE_SECONDS = 110


def blocks() -> list[tuple[str, str]]:
    """Return the language and the text of each block that makes a picture."""
    section = README.read_text(encoding="utf-8").split("## Make a picture")[1].split("\n## ")[0]
    assert ENDS in section
    return re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def pasted(folder: Path) -> str:
    """Return all blocks as one program for a shell: Python is pasted into Python, and nothing is installed."""
    lines = ["set -e"]
    for number, (language, text) in enumerate(blocks()):
        if language == "sh":
            lines.append(re.sub(rf"^{re.escape(INSTALL)}.*$", "", text, flags=re.MULTILINE))
        else:
            program = folder / f"block{number}.py"
            program.write_text(text, encoding="utf-8")
            lines.append(f"{shlex.quote(sys.executable)} {program}")
    # Whatever failed before, nothing stays.
    return "\n".join([f"trap '{ENDS}; wait' EXIT", *lines])


def test_every_block_works_when_pasted_in_order(tmp_path: Path) -> None:
    sandbox, server = free_port(), free_port()
    script = pasted(tmp_path).replace("8585", str(sandbox)).replace("8484", str(server))
    for file in tmp_path.glob("*.py"):
        file.write_text(file.read_text(encoding="utf-8").replace("8484", str(server)), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LONGTAKE_")}
    environment = inherited | {"LONGTAKE_PORT": str(server), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    shown = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert '"status":"completed"' in shown.stdout
    assert len(list(tmp_path.glob("*.png"))) == 2


def test_the_install_line_is_the_one_that_is_left_out() -> None:
    assert INSTALL in README.read_text(encoding="utf-8")
