"""Checks of text from users and other programs: bounded, and without invisible characters."""

import re

from longtake.errors import InvalidText

#: Control characters other than tab and line ends, and lone surrogates, which no database can store.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def check_plain_text(name: str, text: str, *, most: int, least: int = 0) -> str:
    """Return the text unchanged, or raise InvalidText. The error names the field, never the text."""
    if len(text) < least:
        raise InvalidText(f"{name} must not be empty.", field=name)
    if len(text) > most:
        raise InvalidText(f"{name} has {len(text):,} characters; {most:,} are allowed.", field=name)
    if found := _REFUSED.search(text):
        raise InvalidText(
            f"{name} has a control character (U+{ord(found.group()):04X}) at position {found.start()}.",
            hint="Of all control characters only tabs and line breaks are allowed.",
            field=name,
        )
    return text


def clean_plain_text(text: str, *, most: int) -> str:
    """Return the text cut to `most` characters, with invalid ones replaced, for sources that cannot correct it."""
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text)[:most]
