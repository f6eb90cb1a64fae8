"""Checks of what users and other programs send, and what is wrong with it, in words for people."""

import re
from collections.abc import Mapping
from typing import Any

from longtake.errors import InvalidText
from longtake.redaction import names_a_secret

#: Control characters other than tab and line ends, and lone surrogates, which no database can store.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

#: What is wrong with a field, by pydantic's type of error.
MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "uuid_parsing": "must be an id (UUID)",
    "uuid_type": "must be an id (UUID)",
    "datetime_parsing": "must be a time in ISO 8601",
    "datetime_from_date_parsing": "must be a time in ISO 8601",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have at most {max_length} entries",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}


def field_message(details: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, as the rest of a sentence that begins with its name."""
    message, context = MESSAGES.get(details["type"]), details.get("ctx", {})
    if message is not None and "{" not in message:
        return message
    if any(names_a_secret(str(part)) for part in details["loc"]):
        return "is not valid"
    if message is not None:
        return message.format(**{name: _whole(value) for name, value in context.items()})
    if details["type"] == "value_error":
        return str(context["error"])
    text = str(details["msg"])
    return f"is wrong: {text[0].lower()}{text[1:]}"[:500]


def _whole(value: Any) -> Any:
    """Return 1 for 1.0: a limit is shown as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
