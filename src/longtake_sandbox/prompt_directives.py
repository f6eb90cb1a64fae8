"""Words in a prompt that choose how its generation ends, so that one test or demo can show every ending."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

SLOW_FACTOR = 10.0
_SECONDS = re.compile(r"\[seconds=(\d+(?:\.\d+)?)\]")


@dataclass(frozen=True, slots=True)
class Directives:
    """The ending (success, fail, blocked, safety, empty) and the duration that a prompt asks for."""

    ending: str
    seconds: float

    @classmethod
    def read(cls, prompt: str, seconds: float) -> Directives:
        """Read ``[fail]``, ``[blocked]``, ``[safety]``, ``[empty]``, ``[slow]``, ``[never]`` and ``[seconds=N]``."""
        ending = next((word for word in ("fail", "blocked", "safety", "empty") if f"[{word}]" in prompt), "success")
        if named := _SECONDS.search(prompt):
            seconds = float(named[1])
        if "[slow]" in prompt:
            seconds *= SLOW_FACTOR
        if "[never]" in prompt:
            seconds = math.inf
        return cls(ending, seconds)
