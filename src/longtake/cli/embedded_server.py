"""The server of this machine's data folder: the one that runs, or one that is started for a command.

Commands that use the folder hold a shared lock. The last of them stops the server, if a command has started it, and
waits for its end: two commands at once share one. A server whose commands were killed finds the lock free, and ends by
itself.
"""

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from longtake.cli.operator_http import error_of
from longtake.cli.output import print_note
from longtake.db.urls import is_sqlite
from longtake.errors import DatabaseOwned, LongtakeError, ServerUnreachable
from longtake.server.server_file import ServerFile, read_server_file, server_of_database
from longtake.settings import Settings
from longtake.settings.work import FAREWELL_SECONDS

LOCK_NAME = "commands.lock"
TURN_NAME = "commands.turn"
LOG_NAME = "commands.log"
LOG_BYTES = 5_000_000
START_SECONDS = 60.0
CONNECT_SECONDS = 2.0
LOOK_SECONDS = 0.05
SHOWN_LINES = 3
#: How a process says the error it ends with; see failures.print_error.
ERROR = re.compile(r"(?ms)^longtake: (?P<message>.+?) \[(?P<code>[A-Z_]+)\]\n(?P<hint>(?:  [^\n]*\n?)*)")


@contextlib.contextmanager
def own_server(settings: Settings) -> Iterator[tuple[ServerFile, bool]]:
    """Yield the server, and whether it was started by a command."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _shorten(settings.data_dir / LOG_NAME)
    lock = os.open(settings.data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    server = None
    with _interruptible():
        try:
            # Waits while another command stops its server.
            fcntl.flock(lock, fcntl.LOCK_SH)
            with _turn(settings.data_dir):
                server = running_server(settings) or _start(settings, lock)
            yield server, _started_by_command(lock, server)
        finally:
            if server is not None and _started_by_command(lock, server):
                _stop_if_last(settings, lock, server)
            os.close(lock)


def running_server(settings: Settings) -> ServerFile | None:
    """Return the server that runs on this data folder."""
    known = server_of_database(settings) if is_sqlite(settings.database_url) else read_server_file(settings.data_dir)
    # A killed server leaves both files behind, and its number may be another process's by now.
    return known if known is not None and _lives(known.pid) and _listens(known.url) else None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the command as Ctrl-C does, so that its server is stopped."""
    # What is not to be heard, as after `nohup`, stays so.
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # A terminal may say twice that it closes: the second must not keep us from stopping the server.
        for number in ours:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Only one command at a time looks for a server and starts one; the others find it then."""
    turn = os.open(folder / TURN_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
    finally:
        os.close(turn)


def _start(settings: Settings, lock: int) -> ServerFile:
    log = settings.data_dir / LOG_NAME
    give_up_at = time.monotonic() + START_SECONDS
    while True:
        begun = log.stat().st_size if log.exists() else 0
        child = _spawn(settings.data_dir)
        try:
            server = _wait_for_start(settings, child, give_up_at)
        except BaseException:
            # Ctrl-C during the start as well: nobody would know of it.
            child.terminate()
            raise
        if server is not None:
            if server.pid == child.pid:
                os.pwrite(lock, f"{child.pid:<20}".encode(), 0)
            return server
        error = _why(log, begun)
        # Somebody else has the file: a server that has just begun, and is used then, or one that is just ending.
        if not isinstance(error, DatabaseOwned) or time.monotonic() > give_up_at:
            child.terminate()
            raise error


def _spawn(folder: Path) -> subprocess.Popen[bytes]:
    serve = ["serve", "--host", "127.0.0.1", "--port", "0", "--until-free", str(folder / LOCK_NAME)]
    with (folder / LOG_NAME).open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "longtake", *serve],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C is for the command alone; it stops the server itself.
            start_new_session=True,
        )


def _wait_for_start(settings: Settings, child: subprocess.Popen[bytes], give_up_at: float) -> ServerFile | None:
    """Return the server that runs now: ours, or one that was quicker; None when ours has ended."""
    while time.monotonic() < give_up_at:
        ended = child.poll() is not None
        if (server := running_server(settings)) is not None:
            return server
        if ended:
            return None
        time.sleep(LOOK_SECONDS)
    return None


def _stop_if_last(settings: Settings, lock: int, server: ServerFile) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if _is_shared(lock):
            return
        # While the lock was given up for this one, the server has taken it, and is ending by itself.
    else:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    give_up_at = time.monotonic() + settings.stop_grace_seconds + FAREWELL_SECONDS
    while _lives(server.pid) and time.monotonic() < give_up_at:
        time.sleep(LOOK_SECONDS)
    if _lives(server.pid):
        print_note(f"The server for this command (process {server.pid}) is still stopping.")


def _is_shared(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _started_by_command(lock: int, server: ServerFile) -> bool:
    return os.pread(lock, 20, 0).decode(errors="replace").strip() == str(server.pid)


def _lives(pid: int) -> bool:
    # Our own child stays in the list of processes until it has been asked after.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_left_over(pid)


def _listens(url: str) -> bool:
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname or "", address.port or 80), CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _is_left_over(pid: int) -> bool:
    """Say whether it has ended, and only nobody has asked after it: in a container often nobody ever does."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].startswith("Z")
    return False


def _shorten(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.old"))


def _why(log: Path, begun: int) -> LongtakeError:
    """Return the error with which the server has ended, as it was there."""
    text = log.read_bytes()[begun:].decode(errors="replace")
    if told := ERROR.search(text):
        message, hint = _plain(told["message"]), _plain(told["hint"])
        return error_of({"code": told["code"], "detail": message, "hint": hint})
    words = " ".join(line.strip() for line in text.strip().splitlines()[-SHOWN_LINES:]) or "it ended without a word."
    return ServerUnreachable(f"No server could be started: {words}", hint=f"Its log is {log}.")


def _plain(indented: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in indented.splitlines())
