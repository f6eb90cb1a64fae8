"""Text that people and other programs send us: bounded, and without anything that a reader cannot see."""

import re

from longtake.errors import InvalidText

#: Control characters other than tab and line ends, and halves of characters, which no database can hold.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_plain_text(name: str, text: str, *, most: int, least: int = 0) -> str:
    """Return the text as it is, or refuse it; the sentence names the field, never the text."""
    if len(text) < least:
        raise InvalidText(f"{name} must not be empty.", field=name)
    if len(text) > most:
        raise InvalidText(f"{name} has {len(text):,} characters; {most:,} are allowed.", field=name)
    if found := _REFUSED.search(text):
        raise InvalidText(
            f"{name} has a control character (U+{ord(found.group()):04X}) at position {found.start()}.",
            hint="Only tabs and line ends are allowed besides letters, digits and signs.",
            field=name,
        )
    return text


def clean_plain_text(text: str, *, most: int) -> str:
    """Return what can be kept of a text that came from outside and cannot be sent back for correction."""
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text)[:most]
