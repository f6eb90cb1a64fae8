"""Completion in a real shell: the script is sourced, and Tab offers the commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BASH = """
source <(_LONGTAKE_COMPLETE=source_bash longtake)
complete -p longtake
COMP_WORDS=(longtake webhooks de) COMP_CWORD=2
_longtake_completion longtake
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completes_commands() -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "--norc", "-c", BASH]
    shown = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "complete -o default -F _longtake_completion longtake",
        "delete",
        "deliveries",
        "delivery",
    ]
