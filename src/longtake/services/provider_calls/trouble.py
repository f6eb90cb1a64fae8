"""Trouble with a provider, as the task's row, its user and the operators learn of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """What keeps a job waiting, and what to do with the lane."""

    code: str
    message: str
    #: Lanes to pause until an operator resumes them: "submit" or "all".
    pause: str | None = None
    #: Raise an alert, one for the provider instead of one for each task.
    alert: bool = False
    #: The number of the next try, and the seconds until then; None if nothing was tried.
    attempt: int | None = None
    seconds: float = 0.0


#: The sentences for users. URLs, keys and quotas are for operators, who see the alert and the task's row.
TROUBLE = {
    "PROVIDER_BUSY": "The provider takes no more requests for now.",
    "PROVIDER_FULL": "The provider works on as many tasks as it takes at once.",
    "PROVIDER_QUOTA_SPENT": "The provider takes nothing more today.",
    "SUBMIT_UNKNOWN": "The provider's answer was lost; the task costs nothing unless it is found again.",
    "TASK_NOT_FOUND": "The provider does not know the task; it is asked once more.",
}
OTHER_TROUBLE = "The provider cannot be used right now; the task goes on by itself."
OUR_TROUBLE = "Something went wrong on our side; the task goes on by itself."


def trouble_words(code: str) -> str:
    """Return the sentence for users; never the provider's own text, which may contain URLs."""
    return TROUBLE.get(code, OTHER_TROUBLE if code.startswith("PROVIDER_") else OUR_TROUBLE)
