"""Models are data: their names, limits and prices stand in models.toml; a file of the operator adds or replaces.

Requests are checked before anything is written. Each refusal names the field and what is allowed.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from longtake.adapters.providers.provider import Provider
from longtake.errors import SettingsError
from longtake.services.models.errors import (
    InvalidParameter,
    InvalidPrompt,
    ProviderNotConfigured,
    UnknownModel,
    UnknownParameter,
)
from longtake.validation import field_message

BUILT_IN = "models.toml"
PROMPT_LIMIT = 5_000
TEXT_LIMIT = 500
#: Beyond it, JSON readers disagree about whole numbers.
NUMBER_LIMIT = 2**53
_SHOWN = 80


class Parameter(BaseModel):
    """A parameter of a model, with its limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["choice", "whole", "number", "yes_no", "text"]
    meaning: str
    default: Any = None
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    sends: str
    as_text: bool = False

    @model_validator(mode="after")
    def _default_is_allowed(self) -> Parameter:
        if self.kind == "choice" and not self.choices:
            raise ValueError("a choice needs choices")
        if self.default is not None and (wrong := self.problem(self.default)):
            raise ValueError(f"its default {wrong}")
        return self

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value; None when it is allowed."""
        match self.kind:
            case "choice":
                # True == 1: a choice of numbers must not accept it.
                if not any(value == one and type(value) is type(one) for one in self.choices):
                    return f"must be one of {', '.join(str(one) for one in self.choices)}"
            case "yes_no":
                if not isinstance(value, bool):
                    return "must be true or false"
            case "text":
                if not isinstance(value, str) or len(value) > (self.most or TEXT_LIMIT) or not value.isprintable():
                    return f"must be one line of at most {self.most or TEXT_LIMIT:g} characters"
            case "whole" | "number":
                return self._number_problem(value)
        return None

    def _number_problem(self, value: Any) -> str | None:
        allowed = (int,) if self.kind == "whole" else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            return f"must be a {'whole ' if self.kind == 'whole' else ''}number"
        if not -NUMBER_LIMIT <= value <= NUMBER_LIMIT:
            return f"must be a number between -{NUMBER_LIMIT:,} and {NUMBER_LIMIT:,}"
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            bounds = [f"at least {self.least:g}"] if self.least is not None else []
            bounds += [f"at most {self.most:g}"] if self.most is not None else []
            return f"must be {' and '.join(bounds)}"
        return None


class Model(BaseModel):
    """A model: its provider, price, deadline and parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$")
    title: str
    provider: str
    remote: str
    type: Literal["image", "video"]
    credits: int = Field(ge=0, le=1_000_000)
    deadline: float = Field(ge=10, le=86_400)
    lane: str | None = None
    prompt_limit: int = Field(default=PROMPT_LIMIT, ge=1, le=50_000)
    references: tuple[int, int] = (0, 0)
    reference_field: str | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The values of parameters that a request leaves out."""
        return {name: one.default for name, one in self.parameters.items() if one.default is not None}

    def wire_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with the names and in the form that the provider takes."""
        return {
            spec.sends: str(value) if spec.as_text else value
            for name, value in parameters.items()
            if (spec := self.parameters.get(name)) is not None
        }


def load_models(file: Path | None = None) -> dict[str, Model]:
    """Return the models by name: the built-in ones, and those that the file adds or replaces."""
    models = _read(files("longtake.services.models").joinpath(BUILT_IN).read_text("utf-8"), BUILT_IN)
    if file is not None:
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"LONGTAKE_MODELS_FILE: {file} cannot be read: {error}.") from None
        models |= _read(text, str(file))
    return models


def _read(text: str, name: str) -> dict[str, Model]:
    try:
        entries = tomllib.loads(text).get("model", [])
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{name} is not valid TOML: {error}.") from None
    models = {}
    for number, entry in enumerate(entries, start=1):
        try:
            model = Model.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            called = entry.get("name", f"number {number}") if isinstance(entry, dict) else f"number {number}"
            raise SettingsError(f"{name}: the model {called}: {where}: {field_message(first)}.") from None
        models[model.name] = model
    return models


# -- requests for models -------------------------------------------------------------------------------------------


class OfferedModels:
    """All models, and which of them can be used now."""

    def __init__(self, models: dict[str, Model], providers: Mapping[str, Provider]) -> None:
        self.models = models
        self._providers = providers

    def available(self, model: Model) -> bool:
        return self._providers[model.provider].configured

    def find(self, name: str, type: str) -> Model:  # noqa: A002 - the domain's word
        model = self.models.get(name)
        if model is None or model.type != type:
            fitting = [one.name for one in self.models.values() if one.type == type]
            nearest = difflib.get_close_matches(name, fitting, n=1)
            hint = f"Did you mean {nearest[0]}? " if nearest else ""
            what = f"{name[:_SHOWN]!r} makes {model.type}s" if model else f"There is no model {name[:_SHOWN]!r}"
            raise UnknownModel(f"{what}.", hint=f"{hint}GET /v1/models lists them.", models=fitting)
        if not self.available(model):
            raise ProviderNotConfigured(
                f"The model {model.name} cannot be used: its provider {model.provider} has no key.", model=model.name
            )
        return model


def check_prompt(model: Model, prompt: str) -> str:
    """Return the prompt without surrounding space, or raise what is wrong with it."""
    prompt = prompt.strip()
    if not prompt:
        raise InvalidPrompt("The prompt is empty.", hint="Describe the image or video in words.")
    if len(prompt) > model.prompt_limit:
        raise InvalidPrompt(
            f"The prompt has {len(prompt):,} characters; {model.name} takes at most {model.prompt_limit:,}.",
            limit=model.prompt_limit,
        )
    if any(_cannot_be_stored(one) for one in prompt):
        raise InvalidPrompt("The prompt contains a control character or an unpaired surrogate.")
    return prompt


def _cannot_be_stored(one: str) -> bool:
    return (one < " " and one not in "\n\r\t") or "\ud800" <= one <= "\udfff"


def check_parameters(model: Model, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with their defaults, or raise what is wrong with one of them."""
    for name, value in parameters.items():
        spec = model.parameters.get(name)
        if spec is None:
            known = ", ".join(model.parameters) or "none"
            raise UnknownParameter(
                f"{model.name} has no parameter {name[:_SHOWN]!r}.",
                hint=f"Its parameters: {known}.",
                parameter=name[:_SHOWN],
            )
        if problem := spec.problem(value):
            raise InvalidParameter(f"The parameter {name} {problem}.", parameter=name)
    return {**model.defaults, **parameters}
