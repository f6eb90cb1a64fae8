"""Settings of what is made and collected: media with their models and providers, and the catalogue."""

from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from longtake.settings.checks import ProviderUrl, PublicUrl, optional, optional_secret


class MediaSettings(BaseModel):
    """Settings for media: limits, thumbnails, models and providers; then for the catalogue: sources and schedules."""

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
    cloudflare_media_zone: PublicUrl = optional(
        "Address of a Cloudflare zone with Media Transformations, for thumbnail_method cloudflare.",
        "https://media.example.com",
    )
    models_file: str = optional(
        "TOML file with your own models, which add to the built-in ones or replace them; empty for none.", "models.toml"
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
    kie_api_key: SecretStr = optional_secret(
        "API key for KIE; leave it empty if the key is stored encrypted or you do not use KIE.",
        "a key from the provider's console",
    )
    kie_base_url: ProviderUrl = Field(
        default="https://api.kie.ai",
        description="Address of KIE's API; the sandbox has its own address for it.",
    )
    kie_webhook_key: SecretStr = optional_secret(
        "Key that KIE signs its callbacks with; empty if it does not sign them.", "a key from the provider's console"
    )
    gemini_api_key: SecretStr = optional_secret(
        "API key for Google Gemini; leave it empty if the key is stored encrypted or you do not use Gemini.",
        "a key from the provider's console",
    )
    gemini_base_url: ProviderUrl = Field(
        default="https://generativelanguage.googleapis.com/v1beta",
        description="Address of Gemini's API; the sandbox has its own address for it.",
    )
    tmdb_api_key: SecretStr = optional_secret(
        "API key for TMDB (v3 key or v4 token). If empty, the key stored by `longtake secrets set`; without a key"
        " there are no ids.",
        "your-tmdb-key",
    )
    tmdb_base_url: ProviderUrl = Field(
        default="https://api.themoviedb.org/3",
        description="Address of TMDB's API.",
        examples=["http://127.0.0.1:8585/tmdb/3"],
    )
    tmdb_images_url: ProviderUrl = Field(
        default="https://image.tmdb.org",
        description="Address of TMDB's images. If an image below it is missing, other sizes are tried.",
        examples=["http://127.0.0.1:8585/tmdb-images"],
    )
    tmdb_per_second: int = Field(
        default=40, ge=0, le=10_000, description="Requests to TMDB per second, over all machines; 0 for no limit."
    )
    titles_at_once: int = Field(
        default=5, ge=0, le=1_000, description="Titles looked up at the same time, over all machines; 0 for no limit."
    )
    posters_at_once: int = Field(
        default=5, ge=0, le=1_000, description="Posters downloaded at the same time, over all machines; 0 for no limit."
    )
    poster_check_days: int = Field(
        default=7, ge=1, le=36_500, description="Days after which a poster's source is checked for changes."
    )
    bangumi_base_url: ProviderUrl = Field(
        default="https://api.bgm.tv",
        description="Address of Bangumi's API.",
        examples=["http://127.0.0.1:8585/bangumi"],
    )
    bangumi_images_url: ProviderUrl = Field(
        default="https://lain.bgm.tv",
        description="Address of Bangumi's covers. If a cover below it is missing, other sizes are tried.",
        examples=["http://127.0.0.1:8585/bangumi-images"],
    )
    bangumi_user_agent: str = Field(
        default="longtake/longtake (self-hosted)",
        min_length=5,
        max_length=200,
        pattern=r"^[\x20-\x7e]+$",
        description="User-Agent for Bangumi, which asks for developer/application and a homepage.",
        examples=["ada/film-shelf (https://films.example.com)"],
    )
    calendar_hours: int = Field(
        default=24,
        ge=0,
        le=8_760,
        description="Hours between two scheduled refreshes of Bangumi's calendar, once there are titles; 0 for none.",
    )
    sync_minutes: int = Field(
        default=60, ge=0, le=525_600, description="Minutes between two scheduled syncs of the catalogue; 0 for none."
    )
