"""The decoder's child process: reads requests from its input, writes pictures to its output.

All decoding of untrusted bytes happens here, so this process gives up its rights before it reads the first byte.
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
from longtake.adapters.decoder.protocol import pack, receive

MEMORY_BYTES = 1536 * 1024 * 1024
#: While libraries are loaded.
OPEN_FILES = 32


def limit_process() -> None:
    """Limit memory and open files, and forbid core dumps and writing. Processor time is limited for each request."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def deny_new_files() -> None:
    """Forbid to open files and sockets. Those that are open stay open.

    On systems without seccomp only the limit holds, and only until an open file is closed.
    """
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, lowest_free))
    confine()


def limit_processor_time(seconds: float) -> None:
    """Have the system kill this process when the request has used this much processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def main() -> None:
    """Answer requests until the parent is gone."""
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Output of a library must not look like an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    limit_process()
    # Loaded under the limits and before the first request: a warm decoder answers at once and needs no more files.
    from longtake.adapters.decoder.pictures import decode, load_decoders  # noqa: PLC0415

    load_decoders()
    deny_new_files()
    while (message := receive(source)) is not None:
        request, whole = message
        limit_processor_time(request.pop("processor_seconds"))
        answers.write(_answer(decode, request, whole, _Pipe(source, answers)))
        answers.flush()


def _answer(decode: Any, request: dict[str, Any], whole: bytes, pipe: _Pipe) -> bytes:
    from longtake.adapters.decoder.pictures import MediaRejected  # noqa: PLC0415

    size = request.pop("size")
    try:
        # Small files come with the request. The ranges of others are fetched on demand.
        file = io.BytesIO(whole) if whole else RemoteFile(pipe, size)
        facts, picture, placeholder = decode(request, file)
    except MediaRejected as refusal:
        return pack({"refused": refusal.reason, "sentence": str(refusal)})
    except MemoryError:
        return pack({"refused": "too large", "sentence": "The file needs more memory than a picture may."})
    except Exception as error:  # noqa: BLE001 - any error of a decoder is the file's fault
        return pack({"refused": "broken", "sentence": f"The file cannot be decoded ({type(error).__name__})."})
    return pack({"made": facts, "placeholder": len(placeholder)}, placeholder + picture)


class _Pipe:
    """Fetches ranges of the file from the parent."""

    def __init__(self, source: BinaryIO, answers: BinaryIO) -> None:
        self._source = source
        self._answers = answers

    def fetch(self, offset: int, length: int) -> bytes:
        self._answers.write(pack({"read": offset, "length": length}))
        self._answers.flush()
        message = receive(self._source)
        if message is None or not message[0].get("ok"):
            # The parent knows the reason and reports it.
            raise OSError("the parent could not read the file")
        return message[1]


if __name__ == "__main__":
    main()
