"""The decoder's child process: reads requests from its input, writes pictures to its output.

All decoding of untrusted bytes happens here, so this process gives up its rights before it reads the first byte.
"""

from __future__ import annotations

import ctypes
import errno
import io
import math
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from longtake.adapters.decoder.protocol import BlockReader, pack, receive

MEMORY_BYTES = 1536 * 1024 * 1024
#: While libraries are loaded.
OPEN_FILES = 32
SET_NO_NEW_PRIVILEGES = 38
SET_FILTER = 1
ALL_THREADS = 1
#: Instructions of classic BPF: load a word of the system call's data, compare it, return a verdict.
LOAD, EQUAL, AT_LEAST, ANSWER = 0x20, 0x15, 0x35, 0x06
#: Offsets in that data of the call's number, the machine, and the lower half of the first argument.
NUMBER, MACHINE, FIRST_ARGUMENT = 0, 4, 16
ALLOWED = 0x7FFF0000
DENIED = 0x00050000 | errno.EPERM
#: From this number on calls are of the x32 ABI, which would evade the list.
OTHER_FORM = 0x40000000


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
        answers.write(_answer(decode, request, whole, partial(_fetch, source, answers)))
        answers.flush()


def _answer(decode: Any, request: dict[str, Any], whole: bytes, fetch: Callable[[int, int], bytes]) -> bytes:
    from longtake.adapters.decoder.pictures import MediaRejected  # noqa: PLC0415

    size = request.pop("size")
    try:
        # Small files come with the request. The ranges of others are fetched on demand.
        file = io.BytesIO(whole) if whole else BlockReader(fetch, size)
        facts, picture, placeholder = decode(request, file)
    except MediaRejected as refusal:
        return pack({"refused": refusal.reason, "sentence": str(refusal)})
    except MemoryError:
        return pack({"refused": "too large", "sentence": "The file needs more memory than a picture may."})
    except Exception as error:  # noqa: BLE001 - any error of a decoder is the file's fault
        return pack({"refused": "broken", "sentence": f"The file cannot be decoded ({type(error).__name__})."})
    return pack({"made": facts, "placeholder": len(placeholder)}, placeholder + picture)


def _fetch(source: BinaryIO, answers: BinaryIO, offset: int, length: int) -> bytes:
    """Fetch a range of the file from the parent."""
    answers.write(pack({"read": offset, "length": length}))
    answers.flush()
    message = receive(source)
    if message is None or not message[0].get("ok"):
        # The parent knows the reason and reports it.
        raise OSError("the parent could not read the file")
    return message[1]


@dataclass(frozen=True, slots=True)
class Machine:
    """The system call numbers of an architecture."""

    audit: int
    seccomp: int
    prlimit: int
    denied: tuple[int, ...]


# In this order: files opened by name or handle, or through a ring; sockets; programs; other processes, read, written to
# and signalled; the kernel's own programs and counters; files removed, renamed, made and changed by name.
# `clone` stays: codecs start threads.
MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        seccomp=317,
        prlimit=302,
        denied=(
            *(2, 85, 257, 437, 304, 425),  # open, creat, openat, openat2, open_by_handle_at, io_uring_setup
            *(41, 53, 42, 49),  # socket, socketpair, connect, bind
            *(57, 58, 59, 322),  # fork, vfork, execve, execveat
            *(101, 310, 311, 434, 438),  # ptrace, process_vm_readv, process_vm_writev, pidfd_open, pidfd_getfd
            *(62, 200, 234, 129, 297, 424),  # kill, tkill, tgkill, rt_(tg)sigqueueinfo, pidfd_send_signal
            *(321, 298),  # bpf, perf_event_open
            *(87, 263, 84, 82, 264, 316),  # unlink, unlinkat, rmdir, rename, renameat, renameat2
            *(86, 265, 88, 266, 83, 258, 133, 259),  # link, linkat, symlink, symlinkat, mkdir, mkdirat, mknod, mknodat
            *(76, 90, 268, 452, 92, 94, 260),  # truncate, chmod, fchmodat, fchmodat2, chown, lchown, fchownat
        ),
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        seccomp=277,
        prlimit=261,
        denied=(
            *(56, 437, 265, 425),  # openat, openat2, open_by_handle_at, io_uring_setup
            *(198, 199, 203, 200),  # socket, socketpair, connect, bind
            *(221, 281),  # execve, execveat
            *(117, 270, 271, 434, 438),  # ptrace, process_vm_readv, process_vm_writev, pidfd_open, pidfd_getfd
            *(129, 130, 131, 138, 240, 424),  # kill, tkill, tgkill, rt_(tg)sigqueueinfo, pidfd_send_signal
            *(280, 241),  # bpf, perf_event_open
            *(35, 38, 276),  # unlinkat, renameat, renameat2
            *(37, 36, 34, 33),  # linkat, symlinkat, mkdirat, mknodat
            *(45, 53, 452, 54),  # truncate, fchmodat, fchmodat2, fchownat
        ),
    ),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine() -> bool:
    """Deny permanently, by a seccomp filter, what no decoder needs, for all threads and their children.

    The limit on open files is not enough: code that has taken over a decoder can close a file and open another in its
    place. False if the system has no seccomp or its architecture is unknown.
    """
    machine = MACHINES.get(platform.machine())
    # A 32-bit program on such a machine has other call numbers.
    if sys.platform != "linux" or machine is None or sys.maxsize < 2**32:
        return False
    instructions = filter_for(machine)
    program = _Program(len(instructions) // struct.calcsize("HBBI"), instructions)
    libc = ctypes.CDLL(None)
    one, nothing = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if libc.prctl(SET_NO_NEW_PRIVILEGES, one, nothing, nothing, nothing) != 0:
        return False
    result = libc.syscall(ctypes.c_long(machine.seccomp), SET_FILTER, ALL_THREADS, ctypes.byref(program))
    return int(result) == 0


def filter_for(machine: Machine) -> bytes:
    """Return the filter: it denies calls of another architecture or ABI and those listed, and allows all others."""
    deny = _instruction(ANSWER, DENIED)
    return b"".join(
        [
            _instruction(LOAD, MACHINE),
            _instruction(EQUAL, machine.audit, then_skip=1),
            deny,
            _instruction(LOAD, NUMBER),
            _instruction(AT_LEAST, OTHER_FORM, else_skip=1),
            deny,
            *(_instruction(EQUAL, number, else_skip=1) + deny for number in machine.denied),
            # It may set its own limits, as for each request, but not those of its parent.
            _instruction(EQUAL, machine.prlimit, else_skip=3),
            _instruction(LOAD, FIRST_ARGUMENT),
            _instruction(EQUAL, 0, then_skip=1),
            deny,
            _instruction(ANSWER, ALLOWED),
        ]
    )


def _instruction(code: int, value: int, *, then_skip: int = 0, else_skip: int = 0) -> bytes:
    return struct.pack("HBBI", code, then_skip, else_skip, value)


if __name__ == "__main__":
    main()
