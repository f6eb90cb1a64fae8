"""How much is tried where more always finds more: `LONGTAKE_THOROUGH=1` asks for all of it, as the proofs do."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("LONGTAKE_THOROUGH") == "1"


def tries(usual: int, thorough: int) -> int:
    """Return how many examples, jobs or rounds to try."""
    return thorough if THOROUGH else usual
