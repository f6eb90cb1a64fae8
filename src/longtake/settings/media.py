"""Settings of what is made and collected: media with their models and providers, and the catalogue."""

from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from longtake.settings.checks import ProviderUrl, PublicUrl, between, optional, optional_secret


class MediaSettings(BaseModel):
    """Settings for media: limits, thumbnails, models and providers; then for the catalogue: sources and schedules."""

    reference_bytes: int = between(
        1_000, 1_000_000_000, "Largest reference file that you can upload, in bytes.", default=20_000_000
    )
    asset_bytes: int = between(
        1_000_000, 100_000_000_000, "Largest result that is copied to the storage, in bytes.", default=2_000_000_000
    )
    decoders: int = between(
        0, 1_000, "Processes that decode media in one server or worker; 0 means one per CPU core.", default=0, example=4
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
    queue_seconds: float = between(
        10,
        604_800,
        "Seconds that a task may wait for its provider to accept it. Then it ends and costs nothing.",
        default=3600.0,
    )
    scenes_per_minute: int = between(
        1, 1_000, "Scene images started per minute for one provider account, over all machines.", default=20
    )
    scenes_at_once: int = between(
        1, 1_000, "Scene images made at the same time for one provider account, over all machines.", default=1
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
    tmdb_per_second: int = between(
        0, 10_000, "Requests to TMDB per second, over all machines; 0 for no limit.", default=40
    )
    titles_at_once: int = between(
        0, 1_000, "Titles looked up at the same time, over all machines; 0 for no limit.", default=5
    )
    posters_at_once: int = between(
        0, 1_000, "Posters downloaded at the same time, over all machines; 0 for no limit.", default=5
    )
    poster_check_days: int = between(1, 36_500, "Days after which a poster's source is checked for changes.", default=7)
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
    calendar_hours: int = between(
        0,
        8_760,
        "Hours between two scheduled refreshes of Bangumi's calendar, once there are titles; 0 for none.",
        default=24,
    )
    sync_minutes: int = between(
        0, 525_600, "Minutes between two scheduled syncs of the catalogue; 0 for none.", default=60
    )
