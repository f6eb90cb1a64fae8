"""What processes take from the machine: processor time and memory, as the system counts them."""

from pathlib import Path


def processor_seconds(pid: int) -> float:
    """Return the processor time of one process, all its threads included."""
    import psutil  # type: ignore[import-untyped]

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def server_seconds(pid: int) -> float:
    """Return the processor time of a server's processes, those included that have ended."""
    import psutil  # type: ignore[import-untyped]

    postmaster = psutil.Process(pid)
    times = postmaster.cpu_times()
    total = float(times.user + times.system + times.children_user + times.children_system)
    for backend in postmaster.children(recursive=True):
        spent = backend.cpu_times()
        total += spent.user + spent.system
    return total


def memory_bytes(pid: int) -> int:
    """Return a process's memory; pages it shares with others count in part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"The system tells no memory of process {pid}.")


class Peak:
    """How much the memory of a process has grown at most; the system itself notes the peak, so none is missed."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._before = self._read("VmRSS")
        # Makes the system forget the peak so far.
        Path(f"/proc/{pid}/clear_refs").write_text("5")

    def added(self) -> int:
        return self._read("VmHWM") - self._before

    def _read(self, name: str) -> int:
        for line in self._status.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise ValueError(f"The system tells no {name}.")
