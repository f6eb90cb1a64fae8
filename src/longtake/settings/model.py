"""Every setting with its meaning, default, limits and an example."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from longtake.settings.addresses import check_address_ranges, check_database_url, check_public_url, check_storage_url
from longtake.settings.secrets import check_key_set, check_master_keys, check_secret

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
    public_url: str = Field(
        default="",
        description="Address under which others reach this server, for links and callbacks; empty for its own.",
        examples=["https://media.example.com"],
    )
    secret_key: SecretStr = Field(
        default=SecretStr(""),
        description="What tokens, links and stored secrets are protected with; empty for secret.key in data_dir.",
        examples=["write-at-least-32-random-characters-here"],
    )
    master_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key of stored secrets, if not secret_key; several with commas: the first seals, all open.",
        examples=["write-at-least-32-random-characters-here"],
    )
    jwt_secret: SecretStr = Field(
        default=SecretStr(""),
        description="Secret with which others sign users' tokens (HS256); empty for one of this machine's own.",
        examples=["write-at-least-32-random-characters-here"],
    )
    jwt_jwks: str = Field(
        default="",
        description="Public keys of users' tokens (RS256, ES256): the https address or the file of a JSON Web Key Set.",
        examples=["https://login.example.com/.well-known/jwks.json"],
    )
    jwt_issuer: str = Field(
        default="",
        description="What a token's `iss` has to be; empty for anything.",
        examples=["https://login.example.com/"],
    )
    jwt_audience: str = Field(
        default="",
        description="What a token's `aud` has to be or contain; empty for anything.",
        examples=["longtake"],
    )
    requests_per_minute: int = Field(
        default=600,
        ge=1,
        le=1_000_000,
        description="Requests one user may send in a minute; a tenth of it at once.",
        examples=[600],
    )
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
    s3_access_key_id: str = Field(
        default="",
        description="Access key of the S3 bucket; empty for AWS_ACCESS_KEY_ID or the machine's own role.",
        examples=["AKIAIOSFODNN7EXAMPLE"],
    )
    s3_secret_access_key: SecretStr = Field(
        default=SecretStr(""),
        description="Secret key of the S3 bucket; empty for AWS_SECRET_ACCESS_KEY or the machine's own role.",
        examples=["a key from the store's console"],
    )
    allow_addresses: str = Field(
        default="",
        description="Private addresses that requests may go to: ranges with commas, or loopback; empty for none.",
        examples=["127.0.0.1/32,::1/128"],
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
    unfinished_tasks: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Tasks one user may have under way.",
        examples=[1000],
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

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str) -> str:
        return check_public_url(value)

    @field_validator("secret_key", "jwt_secret")
    @classmethod
    def _check_secret(cls, value: SecretStr) -> SecretStr:
        return check_secret(value)

    @field_validator("master_key")
    @classmethod
    def _check_master_key(cls, value: SecretStr) -> SecretStr:
        return check_master_keys(value)

    @field_validator("jwt_jwks")
    @classmethod
    def _check_jwt_jwks(cls, value: str, info: ValidationInfo) -> str:
        secret = info.data.get("jwt_secret")
        if value and secret is not None and secret.get_secret_value():
            raise ValueError("cannot be used together with jwt_secret: tokens have one kind of key")
        return check_key_set(value)

    @field_validator("allow_addresses")
    @classmethod
    def _check_allow_addresses(cls, value: str) -> str:
        return check_address_ranges(value)

    @field_validator("kie_base_url", "gemini_base_url")
    @classmethod
    def _check_provider_url(cls, value: str) -> str:
        return check_public_url(value)

    @field_validator("heartbeat_seconds")
    @classmethod
    def _check_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease_seconds")
        if lease is not None and not value < lease / 2:
            raise ValueError(f"must be less than half of lease_seconds ({lease:g}), or one late beat loses the job")
        return value
