"""What is sent and answered when files are brought in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.media.imports import Kind, Wanted
from longtake.services.assets import AssetView
from longtake.services.assets.schemas import ASSET_EXAMPLE

#: As many as go in with one request.
MOST_AT_ONCE = 100
_URL = "https://example.com/fox.mp4"


class AddBody(BaseModel):
    """A file to bring in."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"url": _URL, "kind": "video", "title": "A fox"}]}
    )

    url: str = Field(description="Where the file is: http or https, at an address of the public internet.")
    kind: Kind | None = Field(
        default=None, description="Without one: an image if the path ends like one, else a video."
    )
    title: str | None = Field(default=None, description="For people.")

    def wanted(self) -> Wanted:
        """Return what is asked for."""
        return Wanted(self.url, self.kind, self.title)


class ImportBody(BaseModel):
    """Files to bring in with one request."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"assets": [{"url": _URL}]}]})

    assets: Annotated[list[AddBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


class RefusedImport(BaseModel):
    """Why one of the files is not brought in."""

    code: str
    message: str
    hint: str = ""


class ImportedItem(BaseModel):
    """What became of one file, in the order of the request: an asset, or a refusal."""

    added: bool = Field(description="False for what was there already, and for what is refused.")
    asset: AssetView | None
    refused: RefusedImport | None


class ImportAnswer(BaseModel):
    """What became of each file."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"added": True, "asset": ASSET_EXAMPLE, "refused": None}]}]}
    )

    items: list[ImportedItem]


class RetryBody(BaseModel):
    """How to try again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"force": False}]})

    force: bool = Field(default=False, strict=True, description="Copy the file again even if our copy is here.")


class AssetPage(BaseModel):
    """Assets, newest first; `next` is the `before` of the page after."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"assets": [ASSET_EXAMPLE], "next": None}]})

    assets: list[AssetView]
    next: str | None


Role = Literal["result", "reference", "import", "scene"]
State = Literal["none", "pending", "success", "failed", "expired"]


def refused_import(code: str, message: str, hint: str) -> dict[str, Any]:
    """Return an item that is not brought in."""
    return {"added": False, "asset": None, "refused": {"code": code, "message": message, "hint": hint}}
