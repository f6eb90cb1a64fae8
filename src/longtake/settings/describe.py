"""The rows that `longtake settings` prints."""

from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from longtake.redaction import MASK, redact_text
from longtake.settings.model import PREFIX, Settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting for display, with secrets masked."""

    name: str
    key: str
    meaning: str
    value: str
    source: str
    example: str


def describe_settings(settings: Settings) -> list[SettingRow]:
    """Return all settings in the order of declaration, each with its value and source."""
    return [
        SettingRow(
            name=PREFIX + key.upper(),
            key=key,
            meaning=field.description or "",
            value=_masked(getattr(settings, key)),
            source=settings.source_of(key),
            example=str((field.examples or [""])[0]),
        )
        for key, field in Settings.model_fields.items()
    ]


def _masked(value: Any) -> str:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    if isinstance(value, float):
        return f"{value:g}"
    return redact_text(str(value))
