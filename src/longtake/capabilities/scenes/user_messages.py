"""What users hear of an image that was not made. Never a provider's address, a host's name or a file's path."""

from __future__ import annotations

from longtake.adapters.providers.trouble import trouble_words

WORDS = {
    "CANCELLED": "It was cancelled.",
    "CRASHED": "The process that made it stopped before it was done.",
    "MODEL_GONE": "The model is no longer offered.",
    "NO_RESULT": "The provider answered without an image.",
    "PROVIDER_GONE": "The provider is no longer used.",
    "PROVIDER_TIMEOUT": "The provider did not answer in time.",
    "PROVIDER_UNAVAILABLE": "The provider could not make it.",
    "STORAGE_UNAVAILABLE": "The image could not be stored.",
    "SUBMIT_UNKNOWN": "The provider's answer was lost.",
    "TIME_LIMIT": "It took too long.",
}
OTHER = "Something went wrong on our side."
#: Why a lane stands still that an operator paused, whatever they wrote as their reason.
LANE_PAUSED = "LANE_PAUSED"


def image_words(code: str) -> str:
    """Return the sentence for a code of ours."""
    if code == LANE_PAUSED:
        return "An operator has paused it."
    return WORDS.get(code) or (trouble_words(code) if code.startswith("PROVIDER_") else OTHER)
