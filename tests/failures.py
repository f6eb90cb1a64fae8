"""What a failed test says beside its traceback: which database, which seed, and what its processes logged last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LAST_LINES = 30
#: Logs of processes that are still running, whichever fixture started them.
running_logs: set[Path] = set()


def describe_failure(item: pytest.Item) -> list[tuple[str, str]]:
    """Return the sections to show, each with its heading."""
    arguments: dict[str, object] = getattr(item, "funcargs", {})
    folder = arguments.get("tmp_path")
    logs = set(running_logs) | (set(folder.rglob("*.log")) if isinstance(folder, Path) else set())
    known = [(name, str(arguments[name])) for name in ("database_url", "postgresql_url", "seed") if name in arguments]
    sections = [("known", "\n".join(f"{name} = {value}" for name, value in known))] if known else []
    return sections + [(f"last lines of {log}", _tail(log)) for log in sorted(logs) if log.is_file()]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:])
