"""What a decoder's process can do once it is loaded: nothing that reaches beyond it, whoever has taken it over."""

from __future__ import annotations

import errno
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from longtake.adapters.decoder.child import MACHINES
from longtake.adapters.decoder.errors import MediaRefused
from longtake.adapters.decoder.pool import DecoderPool, MemoryFile
from longtake.adapters.decoder.protocol import DecodeRequest

PROGRAM = """
import os, resource, socket
from longtake.adapters.decoder import child
from longtake.adapters.decoder.pictures import load_decoders
child.limit_process()
load_decoders()
child.deny_new_files()
try:
    {attempt}
except OSError as error:
    os.write(1, str(error.errno).encode())
else:
    os.write(1, b"0")
"""


def attempted(attempt: str) -> int:
    """Return the number of the error that an attempt ends with in a child that is ready; 0 for none."""
    program = PROGRAM.format(attempt=attempt)
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=True, timeout=60)
    return int(ended.stdout)


def status_of(process: int) -> dict[str, str]:
    """Return what the kernel says of a process, by name."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="only the limits hold here")
@pytest.mark.parametrize("first", ["pass", "os.close(2)"])
@pytest.mark.parametrize(
    "attempt",
    [
        "os.open('/etc/passwd', os.O_RDONLY)",
        "socket.socket()",
        "socket.socketpair()",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "os.unlink('/nowhere/at/all')",
        "os.rename('/nowhere/at/all', '/nowhere/else')",
        "resource.prlimit(os.getppid(), resource.RLIMIT_CORE)",
    ],
)
def test_a_ready_decoder_reaches_nothing_even_with_a_free_descriptor(first: str, attempt: str) -> None:
    """A13: decoding in a confined child process."""
    assert attempted(f"{first}; {attempt}") == errno.EPERM


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="only the limits hold here")
async def test_a_decoder_is_confined_before_it_sees_a_file() -> None:
    """A13: decoding in a confined child process."""
    decoders = DecoderPool(1)
    with pytest.raises(MediaRefused):
        await decoders.decode(DecodeRequest("check", "image/png"), MemoryFile(b"no picture"))
    status = status_of(decoders._idle[0]._process.pid)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    await decoders.close()


@pytest.mark.parametrize("attempt", ["os.pipe()", "os.dup(0)"])
def test_a_ready_decoder_has_no_free_descriptor(attempt: str) -> None:
    """A13: decoding in a confined child process."""
    assert attempted(attempt) == errno.EMFILE


def test_a_child_may_still_limit_itself_and_start_threads() -> None:
    assert attempted("child.limit_processor_time(5); t = __import__('threading').Thread(); t.start(); t.join()") == 0


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "/usr/include/asm-generic/unistd.h")],
)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str, header: str) -> None:
    if not Path(header).exists():
        pytest.skip(f"{header} is not here")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text(encoding="ascii"))
    names = {int(number): name for name, number in found}
    numbers = MACHINES[machine]
    assert (names[numbers.seccomp], names[numbers.prlimit]) == ("seccomp", "prlimit64")
    denied = {names[number] for number in numbers.denied if number in names}
    assert {"openat", "openat2", "socket", "connect", "execve", "ptrace", "kill", "unlinkat"} <= denied
    assert not denied & {"clone", "clone3", "read", "write", "mmap", "futex", "exit_group", "rt_sigreturn"}
