"""The seccomp filter of a loaded decoder, on Linux.

The limit on open files is not enough: code that has taken over a decoder can close a file and open another in its
place. The filter is permanent and holds for all threads and their children.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from dataclasses import dataclass

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
    """Deny permanently what no decoder needs. False if the system has no seccomp or its architecture is unknown."""
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
