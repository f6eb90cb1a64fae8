"""Settings for media: limits, thumbnails, models and providers."""

from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from longtake.settings.checks import ProviderUrl, PublicUrl


class MediaSettings(BaseModel):
    """Settings for media: limits, thumbnails, models and providers."""

    reference_bytes: int = Field(
        default=20_000_000,
        ge=1_000,
        le=1_000_000_000,
        description="Largest reference file that you can upload, in bytes.",
    )
    asset_bytes: int = Field(
        default=2_000_000_000,
        ge=1_000_000,
        le=100_000_000_000,
        description="Largest result that is copied to the storage, in bytes.",
    )
    decoders: int = Field(
        default=0,
        ge=0,
        le=1_000,
        description="Processes that decode media in one server or worker; 0 means one per CPU core.",
        examples=[4],
    )
    thumbnail_method: Literal["frames", "cloudflare"] = Field(
        default="frames",
        description="How video thumbnails are made: frames (locally), or cloudflare (Cloudflare first, else locally).",
    )
    cloudflare_media_zone: PublicUrl = Field(
        default="",
        description="Address of a Cloudflare zone with Media Transformations, for thumbnail_method cloudflare.",
        examples=["https://media.example.com"],
    )
    models_file: str = Field(
        default="",
        description="TOML file with your own models, which add to the built-in ones or replace them; empty for none.",
        examples=["models.toml"],
    )
    queue_seconds: float = Field(
        default=3600.0,
        ge=10,
        le=604_800,
        description="Seconds that a task may wait for its provider to accept it. Then it ends and costs nothing.",
    )
    scenes_per_minute: int = Field(
        default=20,
        ge=1,
        le=1_000,
        description="Scene images started per minute for one provider account, over all machines.",
    )
    scenes_at_once: int = Field(
        default=1,
        ge=1,
        le=1_000,
        description="Scene images made at the same time for one provider account, over all machines.",
    )
    kie_api_key: SecretStr = Field(
        default=SecretStr(""),
        description="API key for KIE; leave it empty if the key is stored encrypted or you do not use KIE.",
        examples=["a key from the provider's console"],
    )
    kie_base_url: ProviderUrl = Field(
        default="https://api.kie.ai",
        description="Address of KIE's API; the sandbox has its own address for it.",
    )
    kie_webhook_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key that KIE signs its callbacks with; empty if it does not sign them.",
        examples=["a key from the provider's console"],
    )
    gemini_api_key: SecretStr = Field(
        default=SecretStr(""),
        description=(
            "API key for Google Gemini; leave it empty if the key is stored encrypted or you do not use Gemini."
        ),
        examples=["a key from the provider's console"],
    )
    gemini_base_url: ProviderUrl = Field(
        default="https://generativelanguage.googleapis.com/v1beta",
        description="Address of Gemini's API; the sandbox has its own address for it.",
    )
