"""Schemas of the health routes and of operators' actions over HTTP."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Alive(BaseModel):
    """The process runs."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "alive", "version": "0.1.0"}]})

    status: Literal["alive"]
    version: str


class Ready(BaseModel):
    """The process can do its work; `checks` lists the result of each check."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"status": "ready", "checks": {"database": "ok", "schema": "ok", "worker": "ok"}}]
        }
    )

    status: Literal["ready"]
    checks: dict[str, str] = Field(description="`ok` for each part, or why there is nothing to check.")


_JSON = "application/json"
#: The arguments are read by the action itself: the same words for them on the command line.
ACTION_BODY: dict[str, Any] = {
    "requestBody": {
        "content": {_JSON: {"schema": {"type": "object"}, "example": {"state": "failed", "limit": 5}}},
        "description": "The action's arguments; nothing for none.",
    }
}
ACTION_ANSWER: dict[str, Any] = {
    "description": "What the action found or did.",
    "content": {_JSON: {"schema": {"type": "object"}, "example": {"jobs": []}}},
}
