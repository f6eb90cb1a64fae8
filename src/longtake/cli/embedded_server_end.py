"""The end of a server that commands have started, when none of them is there any more, however the last one ended."""

import fcntl
import os
import signal
import threading
import time
from pathlib import Path

LOOK_SECONDS = 1.0


def end_when_free(lock: Path) -> None:
    """Stop this process in order as soon as nobody holds the lock, or its file is gone; watched beside all else."""
    watched = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    threading.Thread(target=_watch, args=(lock, watched), name="commands", daemon=True).start()


def _watch(lock: Path, watched: int) -> None:
    while _is_there(lock, watched) and not _taken(watched):
        time.sleep(LOOK_SECONDS)
    # The lock, if we have it, stays ours until the process has ended: the next command waits for that.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _is_there(lock: Path, watched: int) -> bool:
    try:
        return os.path.samestat(lock.stat(), os.fstat(watched))
    except OSError:
        return False


def _taken(watched: int) -> bool:
    try:
        fcntl.flock(watched, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
