"""What happened in a kill test of generation, for whoever compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proofs.faults.generation_callers import Callers, Wish
    from proofs.faults.generation_processes import Processes
    from tests.sandbox_process import SandboxProcess

#: What each user has to spend.
CREDITS = 100_000


@dataclass
class Story:
    """All that a run leaves behind for whoever compares."""

    database_url: str
    processes: Processes
    sandbox: SandboxProcess
    callers: Callers
    wishes: list[Wish] = field(default_factory=list)
    #: Tasks that would have had to wait for their deadline.
    given_up: set[str] = field(default_factory=set)
    #: What had not ended when nobody wanted to wait any longer.
    stuck: list[str] = field(default_factory=list)
