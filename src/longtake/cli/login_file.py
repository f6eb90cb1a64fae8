"""Where this user is logged in: one file in the user's configuration folder, readable by its owner alone."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from longtake.server.private_file import write_private_file


@dataclass(frozen=True)
class Login:
    """A server, and the token or API key for it."""

    server: str
    token: str


def login_path() -> Path:
    """Return where the file lies, as the XDG rules say."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(folder) if folder else Path.home() / ".config") / "longtake" / "login.json"


def read_login() -> Login | None:
    """Return what is written there; None when there is nothing that can be understood."""
    try:
        content = json.loads(login_path().read_text(encoding="utf-8"))
        return Login(str(content["server"]), str(content["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_login(login: Login) -> None:
    """Write it, for the owner's eyes alone."""
    write_private_file(login_path(), asdict(login))


def remove_login() -> bool:
    """Forget it; say whether there was anything."""
    with contextlib.suppress(FileNotFoundError):
        login_path().unlink()
        return True
    return False
