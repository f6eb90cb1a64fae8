"""Checks requests before anything is written: each refusal names the field and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtake.errors import InvalidReferences
from longtake.services.models import Model, check_parameters, check_prompt


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A valid request with all defaults filled in."""

    model: Model
    prompt: str
    parameters: dict[str, Any]
    references: tuple[str, ...]
    conversation_id: str | None


def check_request(
    model: Model,
    prompt: str,
    parameters: Mapping[str, Any],
    references: Sequence[str],
    conversation_id: str | None,
) -> CheckedRequest:
    """Return the request with its defaults, or raise what is wrong with it."""
    least, most = model.references
    if not least <= len(references) <= most or len(set(references)) != len(references):
        wanted = f"{least} to {most}" if least < most else f"{most}" if most else "no"
        # A reference given twice counts as invalid; say so.
        different = "different " if len(set(references)) != len(references) else ""
        raise InvalidReferences(
            f"{model.name} takes {wanted} {different}reference images; given: {len(references)}.",
            least=least,
            most=most,
        )
    checked = check_parameters(model, parameters)
    return CheckedRequest(model, check_prompt(model, prompt), checked, tuple(references), conversation_id)
