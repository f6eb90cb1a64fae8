"""Requests and responses of imports, lists and retries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from longtake.capabilities.media.imports import ImportRequest, Kind
from longtake.services.assets import AssetView
from longtake.services.assets.schemas import ASSET_EXAMPLE

#: The most imports in one request.
MOST_AT_ONCE = 100
_URL = "https://example.com/fox.mp4"


class AddBody(BaseModel):
    """A file to import."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"url": _URL, "kind": "video", "title": "A fox"}]}
    )

    url: str = Field(description="An http or https address on the public internet.")
    kind: Kind | None = Field(default=None, description="By default an image if the path ends like one, else a video.")
    title: str | None = Field(default=None, description="A title for people.")

    def request(self) -> ImportRequest:
        return ImportRequest(self.url, self.kind, self.title)


class ImportBody(BaseModel):
    """Files to import with one request."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"assets": [{"url": _URL}]}]})

    assets: Annotated[list[AddBody], Field(min_length=1, max_length=MOST_AT_ONCE)]


class RefusedImport(BaseModel):
    """Why a file was not imported."""

    code: str
    message: str
    hint: str = ""


class ImportedItem(BaseModel):
    """The result of one import: an asset, or why it was refused."""

    added: bool = Field(description="False for an asset that exists already, and for a refusal.")
    asset: AssetView | None
    refused: RefusedImport | None


class ImportAnswer(BaseModel):
    """The result of each import, in the order of the request."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"items": [{"added": True, "asset": ASSET_EXAMPLE, "refused": None}]}]}
    )

    items: list[ImportedItem]


class RetryBody(BaseModel):
    """How to retry."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"force": False}]})

    force: bool = Field(default=False, strict=True, description="Copy the file again even if our copy exists.")


class AssetPage(BaseModel):
    """Assets, newest first. Send `next` as `before` to get the next page."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"assets": [ASSET_EXAMPLE], "next": None}]})

    assets: list[AssetView]
    next: str | None


Role = Literal["result", "reference", "import", "scene"]
State = Literal["none", "pending", "success", "failed", "expired"]
