"""Every setting with its meaning, default, limits and an example."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from longtake.settings.addresses import check_database_url, check_storage_url

PREFIX = "LONGTAKE_"


def _default_database_url(data: dict[str, Any]) -> str:
    return f"sqlite:///{data['data_dir'].as_posix()}/longtake.db" if "data_dir" in data else ""


def _default_storage_url(data: dict[str, Any]) -> str:
    database_url = data.get("database_url", "")
    if database_url.startswith("sqlite:///"):
        return f"file:{Path(database_url.removeprefix('sqlite:///')).parent.as_posix()}/objects"
    return f"file:{data['data_dir'].as_posix()}/objects" if "data_dir" in data else ""


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Settings(BaseSettings):
    """One value for each setting, checked when made and never changed afterwards."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        str_strip_whitespace=True,
        validate_default=True,
    )
    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    data_dir: Path = Field(
        default=Path("longtake-data"),
        description="Folder for what belongs to this machine: the SQLite file, server.json, lock files, secrets.",
        examples=["/var/lib/longtake"],
    )
    database_url: str = Field(
        default_factory=_default_database_url,
        description="Where jobs are kept: a SQLite file (three slashes, four for an absolute path) or PostgreSQL.",
        examples=["postgresql://longtake:password@localhost/longtake"],
        repr=False,
    )
    storage_url: str = Field(
        default_factory=_default_storage_url,
        description="Where objects are kept: a folder (by default beside the SQLite file) or an S3 bucket.",
        examples=["s3://my-bucket?region=eu-central-1"],
        repr=False,
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address the server listens on; 0.0.0.0 for all networks.",
        examples=["0.0.0.0"],  # noqa: S104 - an example; the default is the loopback address
    )
    port: int = Field(
        default=8484,
        ge=0,
        le=65535,
        description="Port the server listens on; 0 takes any free one, written to server.json.",
        examples=[8484],
    )
    log_format: Annotated[Literal["auto", "json", "human"], BeforeValidator(_lower)] = Field(
        default="auto",
        description="How log lines look: json, human, or auto (human on a terminal, else json).",
        examples=["json"],
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        default="info",
        description="The least important lines still logged: debug, info, warning or error.",
        examples=["debug"],
    )
    worker_concurrency: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="Jobs one worker process runs at the same time.",
        examples=[200],
    )
    poll_seconds: float = Field(
        default=1.0,
        ge=0.01,
        le=60,
        description="Longest time between two looks for due jobs, for when no wake-up arrives.",
        examples=[1.0],
    )
    stop_grace_seconds: float = Field(
        default=20.0,
        ge=0,
        le=3600,
        description="Time running jobs get to finish when a worker stops; what is left is given back unspent.",
        examples=[20],
    )
    lease_seconds: float = Field(
        default=30.0,
        ge=0.2,
        le=3600,
        description="Time without a heartbeat after which a job is taken from a worker that seems dead.",
        examples=[30],
    )
    heartbeat_seconds: float = Field(
        default=10.0,
        ge=0.05,
        le=1800,
        description="Time between two heartbeats of a worker; less than half of lease_seconds.",
        examples=[10],
    )
    database_threads: int = Field(
        default=8,
        ge=1,
        le=200,
        description="Connections to PostgreSQL that one process uses for transactions.",
        examples=[8],
    )
    database_statement_seconds: float = Field(
        default=30.0,
        ge=0.1,
        le=3600,
        description="Time limit for one statement in the database.",
        examples=[30],
    )
    app: str = Field(
        default="",
        pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="Function that declares further job kinds, as module:function; empty for none.",
        examples=["shop.jobs:register"],
    )
    history_days: int = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days for which ended jobs are kept.",
        examples=[30],
    )
    events_days: int = Field(
        default=7,
        ge=1,
        le=36_500,
        description="Days for which events are kept.",
        examples=[7],
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the names are pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Nothing but what is passed: `load_settings` reads the rest, and knows where each value came from."""
        return (init_settings,)

    def source_of(self, name: str) -> str:
        """Where the value came from: `default`, `environment`, or the file's name."""
        return self._sources.get(name, "passed" if name in self.model_fields_set else "default")

    def remember_sources(self, sources: dict[str, str]) -> None:
        """Keep where the values came from, for `longtake settings`."""
        self._sources.update(sources)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth(cls, value: object) -> object:
        # `port = true` in a TOML file would quietly become port 1.
        if isinstance(value, bool):
            raise ValueError("must not be true or false")  # noqa: TRY004 - pydantic turns only ValueError into its own
        return value

    @field_validator("data_dir")
    @classmethod
    def _expand_home(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: str) -> str:
        return check_database_url(value)

    @field_validator("storage_url")
    @classmethod
    def _check_storage_url(cls, value: str) -> str:
        return check_storage_url(value)

    @field_validator("heartbeat_seconds")
    @classmethod
    def _check_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease_seconds")
        if lease is not None and not value < lease / 2:
            raise ValueError(f"must be less than half of lease_seconds ({lease:g}), or one late beat loses the job")
        return value
