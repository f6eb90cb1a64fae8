"""Settings for data folder, database, storage and network addresses."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, SecretStr, field_validator

from longtake.settings.checks import AddressRanges, AdminUrl, DatabaseUrl, Origins, PublicUrl, StorageUrl


def _default_database_url(data: dict[str, Any]) -> str:
    return f"sqlite:///{data['data_dir'].as_posix()}/longtake.db" if "data_dir" in data else ""


def _default_storage_url(data: dict[str, Any]) -> str:
    database_url = data.get("database_url", "")
    if database_url.startswith("sqlite:///"):
        return f"file:{Path(database_url.removeprefix('sqlite:///')).parent.as_posix()}/objects"
    return f"file:{data['data_dir'].as_posix()}/objects" if "data_dir" in data else ""


class PlaceSettings(BaseModel):
    """Settings for data folder, database, storage and network addresses."""

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
    admin_url: AdminUrl = Field(
        default=SecretStr(""),
        description="Address of a PostgreSQL administrator; only `longtake migrate up` uses it. Empty for none.",
        examples=["postgresql://postgres:password@localhost/postgres"],
    )
    allow_superuser: bool = Field(
        default=False,
        description="Start even if the role in database_url is a superuser or exempt from row level security.",
        examples=["true"],
    )
    database_threads: int = Field(
        default=8, ge=1, le=200, description="PostgreSQL connections that one process uses for transactions."
    )
    database_statement_seconds: float = Field(
        default=30.0, ge=0.1, le=3600, description="Time limit for one database statement, in seconds."
    )
    storage_url: StorageUrl = Field(
        default_factory=_default_storage_url,
        description="Storage for objects: a folder (by default next to the SQLite file) or an S3 bucket.",
        examples=["s3://my-bucket?region=eu-central-1"],
        repr=False,
    )
    s3_access_key_id: str = Field(
        default="",
        description="Access key for the S3 bucket. If empty, AWS_ACCESS_KEY_ID or the machine's role applies.",
        examples=["AKIAIOSFODNN7EXAMPLE"],
    )
    s3_secret_access_key: SecretStr = Field(
        default=SecretStr(""),
        description="Secret key for the S3 bucket. If empty, AWS_SECRET_ACCESS_KEY or the machine's role applies.",
        examples=["a key from the store's console"],
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address the server listens on; 0.0.0.0 means all networks.",
        examples=["0.0.0.0"],  # noqa: S104 - an example; the default is the loopback address
    )
    port: int = Field(
        default=8484,
        ge=0,
        le=65535,
        description="Port the server listens on; 0 picks any free port and records it in server.json.",
    )
    public_url: PublicUrl = Field(
        default="",
        description="Public address of this server, used in links and callbacks. If empty, the server uses its own.",
        examples=["https://media.example.com"],
    )
    allowed_origins: Origins = Field(
        default="",
        description=(
            "Origins whose pages may use this server from a browser, separated by commas. If empty, only its own."
        ),
        examples=["https://shop.example.com,http://localhost:5173"],
    )
    allow_addresses: AddressRanges = Field(
        default="",
        description=(
            "Private addresses that outgoing requests may reach, including users' webhooks: ranges or loopback,"
            " separated by commas. If empty, none."
        ),
        examples=["127.0.0.1/32,::1/128"],
    )
    trusted_proxies: AddressRanges = Field(
        default="",
        description=(
            "Proxies whose X-Forwarded-For is trusted: ranges or loopback, separated by commas. If empty, none."
        ),
        examples=["10.0.0.0/8"],
    )
    server: PublicUrl = Field(
        default="",
        description=(
            "Server for commands such as `generate`, `tasks` and `assets`. If empty, the one you are logged in to,"
            " else this machine's."
        ),
        examples=["https://media.example.com"],
    )
    token: SecretStr = Field(
        default=SecretStr(""),
        description="Token or API key for that server. If empty, the one you are logged in with.",
        examples=["a token or an API key"],
    )

    @field_validator("data_dir")
    @classmethod
    def _expand_home(cls, value: Path) -> Path:
        return value.expanduser()
