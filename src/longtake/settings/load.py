"""All settings: read from the environment and `longtake.toml`, checked with a reason for each invalid one, shown."""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, PrivateAttr, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from longtake.errors import SettingsError
from longtake.redaction import MASK, names_a_secret, redact_text
from longtake.settings.media import MediaSettings
from longtake.settings.service import ServiceSettings

PREFIX = "LONGTAKE_"
FILE_NAME = "longtake.toml"
FILE_VARIABLE = f"{PREFIX}CONFIG"
ENVIRONMENT = "environment"
_LONGEST_SHOWN = 80
# A path or a word such as longtake.db names no server, so it contains no password.
_HARMLESS_ADDRESS = re.compile(r"(?:sqlite:|file:)[^@]*$|[^:@]*$", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,20}://", re.IGNORECASE)


class Settings(MediaSettings, ServiceSettings):
    """All settings, those of the service first. They never change after their creation."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        str_strip_whitespace=True,
        validate_default=True,
    )
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def source_of(self, name: str) -> str:
        """Return where the value came from: `default`, `passed`, `environment` or the name of the file."""
        return self._sources.get(name, "passed" if name in self.model_fields_set else "default")

    def remember_sources(self, sources: dict[str, str]) -> None:
        """Store where the values came from, for `longtake settings`."""
        self._sources.update(sources)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth(cls, value: object, info: ValidationInfo) -> object:
        # Without this check, `port = true` in a TOML file would become port 1.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("must not be true or false")
        return value


def load_settings(environment: Mapping[str, str] | None = None, directory: Path | None = None) -> Settings:
    """Return the settings of this process, or raise SettingsError that names every invalid one.

    `environment` replaces os.environ. `directory` replaces the working directory as the place of `longtake.toml`.
    """
    variables = {
        name.upper(): value
        for name, value in (os.environ if environment is None else environment).items()
        if name.upper().startswith(PREFIX)
    }
    file = _settings_file(variables.pop(FILE_VARIABLE, ""), directory or Path())
    from_file = _read_file(file) if file else {}
    from_environment = _read_variables(variables)
    sources = dict.fromkeys(from_file, str(file.name if file and file.name == FILE_NAME else file))
    sources |= dict.fromkeys(from_environment, ENVIRONMENT)
    problems = _unknown_variables(variables) + _unknown_keys(from_file, file)
    known = {name: value for name, value in (from_file | from_environment).items() if name in Settings.model_fields}
    settings = None
    try:
        settings = Settings.model_validate(known)
    except ValidationError as error:
        problems += [_problem(details, sources) for details in error.errors(include_url=False)]
    if problems or settings is None:
        # No cause attached: pydantic's message repeats the values, including passwords.
        raise SettingsError("\n".join(problems))
    settings.remember_sources(sources)
    return settings


def _settings_file(named: str, directory: Path) -> Path | None:
    if named:
        file = directory / Path(named).expanduser()
        if not file.is_file():
            raise SettingsError(
                f"{FILE_VARIABLE}={named}: this file does not exist. Example: {FILE_VARIABLE}=longtake.toml"
            )
        return file
    file = directory / FILE_NAME
    return file if file.exists() else None


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}. Example of a valid line: port = 8484") from None


def _read_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables by setting name. Empty ones count as not set; pydantic parses the text."""
    given = {name.removeprefix(PREFIX).lower(): value for name, value in variables.items() if value.strip()}
    return {name: value for name, value in given.items() if name in Settings.model_fields}


def _suggestion(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f" Did you mean {nearest[0]}?" if nearest else ""


def _unknown_variables(variables: Mapping[str, str]) -> list[str]:
    known = [PREFIX + name.upper() for name in Settings.model_fields] + [FILE_VARIABLE]
    return [
        f"{name}: this setting does not exist.{_suggestion(name, known)}" for name in variables if name not in known
    ]


def _unknown_keys(values: Mapping[str, Any], file: Path | None) -> list[str]:
    known = list(Settings.model_fields)
    return [
        f"{name} in {file}: this setting does not exist.{_suggestion(name.lower().replace('-', '_'), known)}"
        for name in values
        if name not in known
    ]


def _problem(details: ErrorDetails, sources: Mapping[str, str]) -> str:
    name = str(details["loc"][0])
    variable = PREFIX + name.upper()
    example = example_of(name)
    source = sources.get(name, ENVIRONMENT)
    shown = _shown(name, details["input"])
    if source == ENVIRONMENT:
        return f"{variable}={shown}: {_reason(details)}. Example: {variable}={example}"
    return f"{name} = {shown} in {source}: {_reason(details)}. Example: {name} = {json.dumps(example)}"


def example_of(name: str) -> Any:
    """Return a valid value of the setting: its default, unless another says more."""
    field = Settings.model_fields[name]
    value = field.examples[0] if field.examples else field.default
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _reason(details: ErrorDetails) -> str:
    context = details.get("ctx", {})
    match details["type"]:
        case "value_error":
            return str(context["error"])
        case "int_parsing" | "int_type" | "int_from_float":
            return "must be a whole number"
        case "bool_parsing" | "bool_type":
            return "must be true or false"
        case "float_parsing" | "float_type" | "finite_number":
            return "must be a number"
        case "greater_than_equal":
            return f"must be at least {context['ge']:g}"
        case "less_than_equal":
            return f"must be at most {context['le']:g}"
        case "literal_error":
            return f"must be one of {context['expected']}"
        case "string_too_short":
            return "must not be empty"
        case _:
            return details["msg"][0].lower() + details["msg"][1:]


def _shown(name: str, value: Any) -> str:
    """Return the value, masked if it may contain a secret: any part of an invalid address may be the password."""
    field = Settings.model_fields[name]
    text = str(value)
    if names_a_secret(name) or "SecretStr" in repr(field.annotation):
        return MASK
    if name.endswith("_url") and not _HARMLESS_ADDRESS.match(text):
        scheme = _SCHEME.match(text)
        return f"{scheme[0] if scheme else ''}{MASK}"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as `longtake settings` prints it, with secrets masked."""

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
            example=str(example_of(key)),
        )
        for key, field in Settings.model_fields.items()
    ]


def _masked(value: Any) -> str:
    if isinstance(value, SecretStr):
        return MASK if value.get_secret_value() else ""
    if isinstance(value, float):
        return f"{value:g}"
    return redact_text(str(value))
