"""Texts of providers, as they may be shown to users and kept: short, printable, without secrets."""

from __future__ import annotations

from urllib.parse import quote

from longtake.redaction import MASK, redact_text

LONGEST_TEXT = 500
LONGEST_WORD = 60
SHORTEST_SECRET = 8


def plain_words(text: object, *secrets: str, longest: int = LONGEST_TEXT) -> str:
    """Return the text without our keys, should it repeat them, and without anything that is not meant to be read."""
    if not isinstance(text, (str, int, float)):
        return ""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)[:20_000]).split())
    # What is shorter is no secret, and masking it would spoil every word that has these letters.
    for secret in (one for one in secrets if len(one) >= SHORTEST_SECRET):
        for form in (secret, quote(secret, safe="")):
            words = words.replace(form, MASK)
    words = redact_text(words)
    return words if len(words) <= longest else words[: longest - 1] + "…"
