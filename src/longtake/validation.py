"""What is wrong with a field, in words for people: those of the validation library are for programmers."""

from collections.abc import Mapping
from typing import Any

from longtake.redaction import names_a_secret

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
