"""What a batch of outcomes comes to, whichever job they are of: tasks that ended, and trouble that makes some wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from longtake.adapters.providers.provider import Provider
from longtake.adapters.providers.trouble import Trouble
from longtake.capabilities.generation.poll_store import write_trouble
from longtake.capabilities.generation.tasks import Successful, Unsuccessful, end_tasks
from longtake.db import Transaction
from longtake.engine.outcomes import Cancelled, Done, Fail, Outcome, Snooze


@dataclass
class Tally:
    """Filled outcome by outcome, then written at once."""

    successful: list[Successful] = field(default_factory=list)
    unsuccessful: list[Unsuccessful] = field(default_factory=list)
    troubles: dict[str, dict[str, Trouble]] = field(default_factory=lambda: defaultdict(dict))

    def take(self, task_id: str, provider: str, outcome: Outcome) -> bool:
        """Note what all jobs have in common; False for what only the job's own kind understands."""
        match outcome:
            case Done(data=Successful() as successful):
                self.successful.append(successful)
            case Fail(code=code, message=message):
                self.unsuccessful.append(Unsuccessful(task_id, "failed", code, message))
            case Cancelled(reason=reason):
                self.unsuccessful.append(Unsuccessful(task_id, "cancelled", "CANCELLED", reason))
            case Snooze(data=Trouble() as trouble):
                self.troubles[provider][task_id] = trouble
            case _:
                return False
        return True

    def write(self, tx: Transaction, providers: Mapping[str, Provider]) -> None:
        """End what ended, and say what the rest waits for."""
        end_tasks(tx, successful=self.successful, unsuccessful=self.unsuccessful)
        for name, troubles in sorted(self.troubles.items()):
            if name in providers:
                write_trouble(tx, providers[name], troubles)
