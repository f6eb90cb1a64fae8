"""Media, their limits, and who makes them."""

from typing import Literal

from pydantic import BaseModel, Field, SecretStr, field_validator

from longtake.settings.addresses import (
    check_public_url,
)


class MediaSettings(BaseModel):
    """Media, their limits, and who makes them."""

    reference_bytes: int = Field(
        default=20_000_000,
        ge=1_000,
        le=1_000_000_000,
        description="Largest file that can be uploaded as a reference.",
        examples=[20_000_000],
    )
    asset_bytes: int = Field(
        default=2_000_000_000,
        ge=1_000_000,
        le=100_000_000_000,
        description="Largest result that is copied to our storage.",
        examples=[2_000_000_000],
    )
    decoders: int = Field(
        default=0,
        ge=0,
        le=1_000,
        description="Processes of one server or worker that decode media; 0 for one for each core.",
        examples=[4],
    )
    thumbnail_method: Literal["frames", "cloudflare"] = Field(
        default="frames",
        description="How thumbnails of videos are made: frames (here), or cloudflare (there first, else here).",
        examples=["frames"],
    )
    cloudflare_media_zone: str = Field(
        default="",
        description="Address of a Cloudflare zone with Media Transformations, for thumbnail_method cloudflare.",
        examples=["https://media.example.com"],
    )
    models_file: str = Field(
        default="",
        description="TOML file with models of your own, added to those offered or replacing them; empty for none.",
        examples=["models.toml"],
    )
    queue_seconds: float = Field(
        default=3600.0,
        ge=10,
        le=604_800,
        description="Longest time a task waits for its provider to accept it; then it ends, and costs nothing.",
        examples=[3600],
    )
    scenes_per_minute: int = Field(
        default=20,
        ge=1,
        le=1_000,
        description="Images of scenes begun in a minute for one account with a provider, over all machines.",
        examples=[20],
    )
    scenes_at_once: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Images of scenes made at the same time for one account with a provider, over all machines.",
        examples=[1],
    )
    kie_api_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key of the account with KIE; empty when it is stored encrypted, or KIE is not used.",
        examples=["a key from the provider's console"],
    )
    kie_base_url: str = Field(
        default="https://api.kie.ai",
        min_length=1,
        description="Where KIE is reached; the sandbox has an address of its own for it.",
        examples=["https://api.kie.ai"],
    )
    kie_webhook_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key with which KIE signs its callbacks; empty if they are not signed.",
        examples=["a key from the provider's console"],
    )
    gemini_api_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key for Google Gemini; empty when it is stored encrypted, or Gemini is not used.",
        examples=["a key from the provider's console"],
    )
    gemini_base_url: str = Field(
        default="https://generativelanguage.googleapis.com/v1beta",
        min_length=1,
        description="Where Gemini is reached; the sandbox has an address of its own for it.",
        examples=["https://generativelanguage.googleapis.com/v1beta"],
    )

    @field_validator("kie_base_url", "gemini_base_url", "cloudflare_media_zone")
    @classmethod
    def _check_provider_url(cls, value: str) -> str:
        return check_public_url(value)
