"""Settings for the catalogue: its sources, limits and schedules."""

from pydantic import BaseModel, Field, SecretStr

from longtake.settings.checks import ProviderUrl


class CatalogueSettings(BaseModel):
    """Settings for the catalogue: its sources, limits and schedules."""

    tmdb_api_key: SecretStr = Field(
        default=SecretStr(""),
        description=(
            "API key for TMDB (v3 key or v4 token). If empty, the key stored by `longtake secrets set`; without a key"
            " there are no ids."
        ),
        examples=["your-tmdb-key"],
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
