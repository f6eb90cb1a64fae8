"""Settings of the service: where it keeps and reaches things, how it works, who its users are and what they may."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from longtake.settings.checks import (
    AddressRanges,
    AdminUrl,
    DatabaseUrl,
    InternalSecret,
    KeySet,
    MasterKeys,
    Origins,
    PublicUrl,
    Secret,
    StorageUrl,
    between,
    optional,
    optional_secret,
)

#: Seconds after stop_grace_seconds to write outcomes and sign off. Then the process ends, even without a database.
FAREWELL_SECONDS = 10.0


def _default_database_url(data: dict[str, Any]) -> str:
    return f"sqlite:///{data['data_dir'].as_posix()}/longtake.db" if "data_dir" in data else ""


def _default_storage_url(data: dict[str, Any]) -> str:
    database_url = data.get("database_url", "")
    if database_url.startswith("sqlite:///"):
        return f"file:{Path(database_url.removeprefix('sqlite:///')).parent.as_posix()}/objects"
    return f"file:{data['data_dir'].as_posix()}/objects" if "data_dir" in data else ""


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class ServiceSettings(BaseModel):
    """Settings for places and addresses, then for logs, workers and how long rows are kept, then for users."""

    data_dir: Path = Field(
        default=Path("longtake-data"),
        description="Folder for this machine's own files: the SQLite file, server.json, lock files and secrets.",
        examples=["/var/lib/longtake"],
    )
    database_url: DatabaseUrl = Field(
        default_factory=_default_database_url,
        description="Database to use: a SQLite file (three slashes, four for an absolute path) or PostgreSQL.",
        examples=["postgresql://longtake:password@localhost/longtake"],
        repr=False,
    )
    admin_url: AdminUrl = optional_secret(
        "Address of a PostgreSQL administrator; only `longtake migrate up` uses it. Empty for none.",
        "postgresql://postgres:password@localhost/postgres",
    )
    allow_superuser: bool = Field(
        default=False,
        description="Start even if the role in database_url is a superuser or exempt from row level security.",
        examples=["true"],
    )
    database_threads: int = between(1, 200, "PostgreSQL connections that one process uses for transactions.", default=8)
    database_statement_seconds: float = between(
        0.1, 3600, "Time limit for one database statement, in seconds.", default=30.0
    )
    storage_url: StorageUrl = Field(
        default_factory=_default_storage_url,
        description="Storage for objects: a folder (by default next to the SQLite file) or an S3 bucket.",
        examples=["s3://my-bucket?region=eu-central-1"],
        repr=False,
    )
    s3_access_key_id: str = optional(
        "Access key for the S3 bucket. If empty, AWS_ACCESS_KEY_ID or the machine's role applies.",
        "AKIAIOSFODNN7EXAMPLE",
    )
    s3_secret_access_key: SecretStr = optional_secret(
        "Secret key for the S3 bucket. If empty, AWS_SECRET_ACCESS_KEY or the machine's role applies.",
        "a key from the store's console",
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address the server listens on; 0.0.0.0 means all networks.",
        examples=["0.0.0.0"],  # noqa: S104 - an example; the default is the loopback address
    )
    port: int = between(
        0, 65535, "Port the server listens on; 0 picks any free port and records it in server.json.", default=8484
    )
    public_url: PublicUrl = optional(
        "Public address of this server, used in links and callbacks. If empty, the server uses its own.",
        "https://media.example.com",
    )
    allowed_origins: Origins = optional(
        "Origins whose pages may use this server from a browser, separated by commas. If empty, only its own.",
        "https://shop.example.com,http://localhost:5173",
    )
    allow_addresses: AddressRanges = optional(
        "Private addresses that outgoing requests may reach, including users' webhooks: ranges or loopback,"
        " separated by commas. If empty, none.",
        "127.0.0.1/32,::1/128",
    )
    trusted_proxies: AddressRanges = optional(
        "Proxies whose X-Forwarded-For is trusted: ranges or loopback, separated by commas. If empty, none.",
        "10.0.0.0/8",
    )
    server: PublicUrl = optional(
        "Server for commands such as `generate`, `tasks` and `assets`. If empty, the one you are logged in to,"
        " else this machine's.",
        "https://media.example.com",
    )
    token: SecretStr = optional_secret(
        "Token or API key for that server. If empty, the one you are logged in with.", "a token or an API key"
    )
    log_format: Annotated[Literal["auto", "json", "human"], BeforeValidator(_lower)] = Field(
        default="auto",
        description="Format of log lines: json, human, or auto (human on a terminal, json elsewhere).",
        examples=["json"],
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        default="info", description="Lowest level that is logged: debug, info, warning or error.", examples=["debug"]
    )
    worker_concurrency: int = between(1, 10_000, "Jobs that one worker process runs at the same time.", default=200)
    poll_seconds: float = between(
        0.01, 60, "Longest time between two checks for due jobs, in seconds, if no wake-up arrives.", default=1.0
    )
    stop_grace_seconds: float = between(
        0,
        3600,
        "Seconds that running jobs get to finish when a worker stops. The rest go back to the queue and keep"
        " their attempt.",
        default=20.0,
    )
    lease_seconds: float = between(
        0.2, 3600, "Seconds without a heartbeat after which a worker counts as dead and loses its jobs.", default=30.0
    )
    heartbeat_seconds: float = between(
        0.05, 1800, "Seconds between two heartbeats of a worker; must be less than half of lease_seconds.", default=10.0
    )
    internal_secret: InternalSecret = optional_secret(
        "Secret for POST /v1/internal/process, which runs queued jobs. If empty, the route does not exist.",
        "write-at-least-16-random-characters-here",
    )
    app: str = Field(
        default="",
        pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="Function that declares your own job kinds, as module:function; empty for none.",
        examples=["shop.jobs:register"],
    )
    history_days: int = between(1, 36_500, "Days to keep ended jobs.", default=30)
    events_days: int = between(1, 36_500, "Days to keep events.", default=7)
    webhook_days: int = between(1, 36_500, "Days to keep webhook deliveries.", default=30)
    task_days: int = between(
        0,
        36_500,
        "Days to keep ended tasks with their messages, results and files; 0 keeps them forever.",
        default=0,
        example=365,
    )
    secret_key: Secret = optional_secret(
        "Secret that protects tokens, links and stored secrets. If empty, secret.key in data_dir applies.",
        "write-at-least-32-random-characters-here",
    )
    master_key: MasterKeys = optional_secret(
        "Key for stored secrets, if not secret_key. With several, separated by commas, the first encrypts and all"
        " decrypt.",
        "write-at-least-32-random-characters-here",
    )
    jwt_secret: Secret = optional_secret(
        "Secret that signs users' tokens (HS256), shared with their issuer. If empty, this machine's own.",
        "write-at-least-32-random-characters-here",
    )
    jwt_jwks: KeySet = optional(
        "Public keys for users' tokens (RS256, ES256): the https address or the file of a JSON Web Key Set.",
        "https://login.example.com/.well-known/jwks.json",
    )
    jwt_issuer: str = optional("Value that a token's `iss` must have; empty accepts any.", "https://login.example.com/")
    jwt_audience: str = optional("Value that a token's `aud` must be or contain; empty accepts any.", "longtake")
    requests_per_minute: int = between(
        1, 1_000_000, "Requests that one user may send per minute; at most a tenth of them at once.", default=600
    )
    failed_logins_per_minute: int = between(
        1,
        1_000_000,
        "Refused tokens and keys that one address may send per minute; at most a tenth of them at once.",
        default=60,
    )
    streams_per_user: int = between(1, 100_000, "Event streams that one user may have open at one server.", default=20)
    streams: int = between(1, 100_000, "Event streams that one server keeps open at the same time.", default=5_000)
    unfinished_tasks: int = between(
        1, 1_000_000, "Unfinished tasks that one user may have; images of scenes are counted too.", default=1000
    )
    unfinished_imports: int = between(1, 1_000_000, "Unfinished imports of files that one user may have.", default=1000)

    @field_validator("data_dir")
    @classmethod
    def _expand_home(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("heartbeat_seconds")
    @classmethod
    def _check_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease_seconds")
        if lease is not None and not value < lease / 2:
            raise ValueError(
                f"must be less than half of lease_seconds ({lease:g}), or one late heartbeat loses the job"
            )
        return value

    @field_validator("jwt_jwks")
    @classmethod
    def _check_jwt_jwks(cls, value: str, info: ValidationInfo) -> str:
        secret = info.data.get("jwt_secret")
        if value and secret is not None and secret.get_secret_value():
            raise ValueError("cannot be used together with jwt_secret; configure only one of them")
        return value
