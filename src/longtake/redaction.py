"""Masks passwords, tokens and keys in logs, in error messages and in `longtake settings`.

In doubt a value is masked: masking too much costs some readability, masking too little cannot be undone.
"""

import datetime
import decimal
import re
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MASK = "***"

_SECRET_WORDS = frozenset((
    "password", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "authorization", "cookie", "cookies",
    "credential", "credentials", "apikey", "signature", "sig", "jwt", "dsn",
))  # fmt: skip
_SECRET_PHRASES = ("api_key", "private_key", "access_key", "secret_key", "signing_key", "encryption_key")
_WORD_BOUNDARY = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])")

# Most texts contain no secret; these plain searches spare them the regular expressions below.
_SUSPICIOUS = (
    "://", "bearer", "passw", "pwd", "passphrase", "secret", "token", "authori", "cookie", "credential", "key", "sig",
    "jwt", "dsn",
)  # fmt: skip
# Possessive and bounded repetitions, so that a hostile text cannot cause catastrophic backtracking.
# Up to the last @ before the path. In a database URL an unescaped / may be part of the password.
_WEB_PASSWORD = re.compile(r"(\b(?:https?|wss?)://[^\s:/?#@]*+):[^\s/?#]{0,2000}@", re.IGNORECASE)
_OTHER_PASSWORD = re.compile(
    r"((?<![a-z0-9+.-])(?!https?:|wss?:)[a-z][a-z0-9+.-]*+://[^\s:/?#@]*+):\S{0,2000}@",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(bearer)\s{1,3}[\w.~+/=-]+", re.IGNORECASE)
_COOKIES = re.compile(r"\b((?:set-)?cookie:\s{0,3})[^\r\n]+", re.IGNORECASE)
_KEY_IN_QUERY = re.compile(r"([?&]key=)[^&\s'\"#]+", re.IGNORECASE)
# name=value, name: value, "name": "value", name='value with spaces', the same escaped within a string, and header
# values such as `Basic dXNlcjpw`.
_NAME = re.compile(r"(?<![\w-])(?P<name>[\w-]++)(?:\\*['\"])?\s{0,3}[:=]\s{0,3}")
_VALUE = re.compile(
    r"\\++(?P<escaped>['\"])[^'\"\\]*+\\*(?P=escaped)"
    r"|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
    r"|(?:(?:basic|bearer|token)\s{1,3})?[^\s,;&(){}\[\]]+",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = (int, float, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID)
_MAXIMUM_DEPTH = 6


@lru_cache(maxsize=4096)
def names_a_secret(name: str) -> bool:
    """Return whether a value of this name is a secret: `db_password`, `X-Api-Key`, `accessToken`; not `max_tokens`."""
    words = [word.lower() for word in _WORD_BOUNDARY.split(name) if word]
    joined = "_".join(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(phrase in joined for phrase in _SECRET_PHRASES)


def _mask_assignments(text: str) -> str:
    pieces, position = [], 0
    for name in _NAME.finditer(text):
        if name.start() < position or not names_a_secret(name["name"]):
            continue
        if value := _VALUE.match(text, name.end()):
            pieces += [text[position : name.end()], MASK]
            position = value.end()
    return "".join([*pieces, text[position:]]) if pieces else text


def redact_text(text: str) -> str:
    """Return the text with passwords in URLs, bearer tokens, cookies and `password=…` masked."""
    if "=" not in text and ":" not in text and "earer" not in text and "EARER" not in text:
        return text
    lowered = text.lower()
    if not any(piece in lowered for piece in _SUSPICIOUS):
        return text
    if "://" in text:
        text = _WEB_PASSWORD.sub(rf"\1:{MASK}@", text)
        text = _OTHER_PASSWORD.sub(rf"\1:{MASK}@", text)
        text = _KEY_IN_QUERY.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _COOKIES.sub(rf"\1{MASK}", text)
    return _mask_assignments(text)


def redact_value(name: str, value: Any, depth: int = 0) -> Any:
    """Return the value, safe to show under this name, as plain JSON-like data."""
    if value is None or isinstance(value, bool):
        return value
    if names_a_secret(name):
        return MASK
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, _PLAIN):
        return value
    if depth >= _MAXIMUM_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): redact_value(str(key), item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact_value(name, item, depth + 1) for item in value]
    # Anything else would become text only after this point, so it becomes text here and is masked.
    try:
        return redact_text(str(value) if isinstance(value, BaseException) else repr(value))
    except Exception:  # noqa: BLE001 - an object with a broken repr must not break logging
        return f"<{type(value).__name__}>"
