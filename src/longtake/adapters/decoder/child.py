"""A decoder's process: reads requests from its input, writes pictures to its output.

Everything dangerous happens here and nowhere else, so this process gives up what it can before it sees the first byte.
"""

from __future__ import annotations

import io
import math
import os
import resource
import sys
from typing import Any, BinaryIO

from longtake.adapters.decoder.block_reader import RemoteFile
from longtake.adapters.decoder.confinement import confine
from longtake.adapters.decoder.messages import pack, receive

MEMORY_BYTES = 1536 * 1024 * 1024
#: While libraries are loaded.
OPEN_FILES = 32


def limit_process() -> None:
    """Take away memory, core dumps and writing; processor time is limited anew for each wish."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def open_nothing_more() -> None:
    """Take away files and sockets: whatever is open stays so, and nothing else can be opened any more.

    Where the system knows no such filter, the limit holds as long as nothing that is open is closed.
    """
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, lowest_free))
    confine()


def limit_processor_time(seconds: float) -> None:
    """Let the system end this process when the wish takes more than so much of a processor."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def main() -> None:
    """Answer wishes until the parent is gone."""
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not look like an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    limit_process()
    # Loaded under the limits, and before the first wish: a warm decoder answers at once, and needs no file for it.
    from longtake.adapters.decoder.frames import fulfil, load_decoders  # noqa: PLC0415

    load_decoders()
    open_nothing_more()
    while (message := receive(source)) is not None:
        wish, whole = message
        limit_processor_time(wish.pop("processor_seconds"))
        answers.write(_answer(fulfil, wish, whole, _Pipe(source, answers)))
        answers.flush()


def _answer(fulfil: Any, wish: dict[str, Any], whole: bytes, pipe: _Pipe) -> bytes:
    from longtake.adapters.decoder.frames import Refused  # noqa: PLC0415

    size = wish.pop("size")
    try:
        # What came along is there; of everything else the child asks for what it needs.
        file = io.BytesIO(whole) if whole else RemoteFile(pipe, size)
        facts, picture, placeholder = fulfil(wish, file)
    except Refused as refusal:
        return pack({"refused": refusal.reason, "sentence": str(refusal)})
    except MemoryError:
        return pack({"refused": "too large", "sentence": "The file needs more memory than a picture may."})
    except Exception as error:  # noqa: BLE001 - whatever a decoder raises is the file's fault
        return pack({"refused": "broken", "sentence": f"The file cannot be decoded ({type(error).__name__})."})
    return pack({"made": facts, "placeholder": len(placeholder)}, placeholder + picture)


class _Pipe:
    """Asks the parent for a part of the file."""

    def __init__(self, source: BinaryIO, answers: BinaryIO) -> None:
        self._source = source
        self._answers = answers

    def fetch(self, offset: int, length: int) -> bytes:
        self._answers.write(pack({"read": offset, "length": length}))
        self._answers.flush()
        message = receive(self._source)
        if message is None or not message[0].get("ok"):
            # The parent knows why, and will say so itself.
            raise OSError("no more of the file can be had")
        return message[1]


if __name__ == "__main__":
    main()
