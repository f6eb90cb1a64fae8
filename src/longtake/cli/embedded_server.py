"""The server of this machine's data folder: the running one, or one started for a command.

Commands that use the folder hold a shared lock, so two commands at once share one server. The last of them stops a
server that a command has started, and waits for its end. If all its commands were killed, the server finds the lock
free and stops itself.
"""

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from longtake.cli.operator_access import error_of
from longtake.db import is_sqlite
from longtake.db.errors import DatabaseOwned
from longtake.errors import LongtakeError
from longtake.server.errors import ServerUnreachable
from longtake.server.server_file import ServerFile, read_server_file, server_of_database
from longtake.settings import Settings
from longtake.settings.service import FAREWELL_SECONDS
from longtake.terminal.output import print_note

LOCK_NAME = "commands.lock"
TURN_NAME = "commands.turn"
LOG_NAME = "commands.log"
LOG_BYTES = 5_000_000
START_SECONDS = 60.0
CONNECT_SECONDS = 2.0
LOOK_SECONDS = 0.05
#: How often a started server checks whether any command is left.
WATCH_SECONDS = 1.0
SHOWN_LINES = 3
#: The format of the error with which a process ends; see terminal.failures.print_error.
ERROR = re.compile(r"(?ms)^longtake: (?P<message>.+?) \[(?P<code>[A-Z_]+)\]\n(?P<hint>(?:  [^\n]*\n?)*)")


@contextlib.contextmanager
def local_server(settings: Settings) -> Iterator[tuple[ServerFile, bool]]:
    """Yield the server, and whether a command has started it."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _rotate_log(settings.data_dir / LOG_NAME)
    lock = os.open(settings.data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    server = None
    with _interruptible():
        try:
            # Blocks while another command stops its server.
            fcntl.flock(lock, fcntl.LOCK_SH)
            with _start_lock(settings.data_dir):
                server = running_server(settings) or _start(settings, lock)
            yield server, _started_by_command(lock, server)
        finally:
            if server is not None and _started_by_command(lock, server):
                _stop_if_last(settings, lock, server)
            os.close(lock)


def running_server(settings: Settings) -> ServerFile | None:
    """Return the server that is running on this data folder."""
    known = server_of_database(settings) if is_sqlite(settings.database_url) else read_server_file(settings.data_dir)
    # A killed server leaves both files behind, and another process may have its number by now.
    return known if known is not None and _is_alive(known.pid) and _is_listening(known.url) else None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that the command stops its server."""
    # Signals that are ignored, as after `nohup`, stay ignored.
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        # A closing terminal may signal twice; the second signal must not interrupt the stop.
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
def _start_lock(folder: Path) -> Iterator[None]:
    """Let one command at a time look for a server and start one; the others then find it."""
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
        log_start = log.stat().st_size if log.exists() else 0
        child = _spawn(settings.data_dir)
        try:
            server = _wait_for_start(settings, child, give_up_at)
        except BaseException:
            # Also after Ctrl-C: no other command would find this server.
            child.terminate()
            raise
        if server is not None:
            if server.pid == child.pid:
                os.pwrite(lock, f"{child.pid:<20}".encode(), 0)
            return server
        error = _error_in_log(log, log_start)
        # Another process has the file: a server that is starting, which is used next time round, or one that is ending.
        if not isinstance(error, DatabaseOwned) or time.monotonic() > give_up_at:
            child.terminate()
            raise error


def _spawn(folder: Path) -> subprocess.Popen[bytes]:
    serve = ["serve", "--host", "127.0.0.1", "--port", "0", "--until-free", str(folder / LOCK_NAME)]
    with (folder / LOG_NAME).open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "longtake", *serve],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C goes to the command alone, which then stops the server.
            start_new_session=True,
        )


def _wait_for_start(settings: Settings, child: subprocess.Popen[bytes], give_up_at: float) -> ServerFile | None:
    """Return the running server, ours or one that was faster; None if ours has ended."""
    while time.monotonic() < give_up_at:
        ended = child.poll() is not None
        if (server := running_server(settings)) is not None:
            return server
        if ended:
            return None
        time.sleep(LOOK_SECONDS)
    return None


def _stop_if_last(settings: Settings, lock: int, server: ServerFile) -> None:
    if _take_lock(lock, fcntl.LOCK_EX):
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    elif _take_lock(lock, fcntl.LOCK_SH):
        return
    # Else the server took the lock while it changed hands, and is already stopping itself.
    give_up_at = time.monotonic() + settings.stop_grace_seconds + FAREWELL_SECONDS
    while _is_alive(server.pid) and time.monotonic() < give_up_at:
        time.sleep(LOOK_SECONDS)
    if _is_alive(server.pid):
        print_note(f"The server started for this command (process {server.pid}) is still stopping.")


def _started_by_command(lock: int, server: ServerFile) -> bool:
    return os.pread(lock, 20, 0).decode(errors="replace").strip() == str(server.pid)


def _is_alive(pid: int) -> bool:
    # Our own child stays a zombie until it is waited for.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_listening(url: str) -> bool:
    address = urlsplit(url)
    try:
        with socket.create_connection((address.hostname or "", address.port or 80), CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _is_zombie(pid: int) -> bool:
    """Return whether it has ended without being waited for; in a container that often never happens."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].startswith("Z")
    return False


def _rotate_log(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_suffix(".log.old"))


def _error_in_log(log: Path, start: int) -> LongtakeError:
    """Return the error with which the server ended."""
    text = log.read_bytes()[start:].decode(errors="replace")
    if found := ERROR.search(text):
        message, hint = _unindent(found["message"]), _unindent(found["hint"])
        return error_of(found["code"], message, hint)
    lines = [line.strip() for line in text.strip().splitlines()]
    reason = " ".join(lines[-SHOWN_LINES:]) or "it ended without a message."
    return ServerUnreachable(f"The server could not be started: {reason}", hint=f"Its log is {log}.")


def _unindent(indented: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in indented.splitlines())


def end_when_free(lock: Path) -> None:
    """Stop this server in order once no command holds the lock, or its file is gone; a thread watches it."""
    watched = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    threading.Thread(target=_watch, args=(lock, watched), name="commands", daemon=True).start()


def _watch(lock: Path, watched: int) -> None:
    while _is_same_file(lock, watched) and not _take_lock(watched, fcntl.LOCK_EX):
        time.sleep(WATCH_SECONDS)
    # Once taken, the lock is held until this process has ended; the next command waits for that.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _is_same_file(lock: Path, watched: int) -> bool:
    try:
        return os.path.samestat(lock.stat(), os.fstat(watched))
    except OSError:
        return False


def _take_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
