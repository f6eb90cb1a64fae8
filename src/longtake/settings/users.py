"""Settings for authentication and for the limits of each user."""

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator

from longtake.settings.checks import KeySet, MasterKeys, Secret


class UserSettings(BaseModel):
    """Settings for authentication and for the limits of each user."""

    secret_key: Secret = Field(
        default=SecretStr(""),
        description="Secret that protects tokens, links and stored secrets. If empty, secret.key in data_dir applies.",
        examples=["write-at-least-32-random-characters-here"],
    )
    master_key: MasterKeys = Field(
        default=SecretStr(""),
        description=(
            "Key for stored secrets, if not secret_key. With several, separated by commas, the first encrypts and all"
            " decrypt."
        ),
        examples=["write-at-least-32-random-characters-here"],
    )
    jwt_secret: Secret = Field(
        default=SecretStr(""),
        description="Secret that signs users' tokens (HS256), shared with their issuer. If empty, this machine's own.",
        examples=["write-at-least-32-random-characters-here"],
    )
    jwt_jwks: KeySet = Field(
        default="",
        description=(
            "Public keys for users' tokens (RS256, ES256): the https address or the file of a JSON Web Key Set."
        ),
        examples=["https://login.example.com/.well-known/jwks.json"],
    )
    jwt_issuer: str = Field(
        default="",
        description="Value that a token's `iss` must have; empty accepts any.",
        examples=["https://login.example.com/"],
    )
    jwt_audience: str = Field(
        default="",
        description="Value that a token's `aud` must be or contain; empty accepts any.",
        examples=["longtake"],
    )
    requests_per_minute: int = Field(
        default=600,
        ge=1,
        le=1_000_000,
        description="Requests that one user may send per minute; at most a tenth of them at once.",
    )
    failed_logins_per_minute: int = Field(
        default=60,
        ge=1,
        le=1_000_000,
        description="Refused tokens and keys that one address may send per minute; at most a tenth of them at once.",
    )
    streams_per_user: int = Field(
        default=20, ge=1, le=100_000, description="Event streams that one user may have open at one server."
    )
    streams: int = Field(
        default=5_000, ge=1, le=100_000, description="Event streams that one server keeps open at the same time."
    )
    unfinished_tasks: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Unfinished tasks that one user may have; images of scenes are counted too.",
    )
    unfinished_imports: int = Field(
        default=1000, ge=1, le=1_000_000, description="Unfinished imports of files that one user may have."
    )

    @field_validator("jwt_jwks")
    @classmethod
    def _check_jwt_jwks(cls, value: str, info: ValidationInfo) -> str:
        secret = info.data.get("jwt_secret")
        if value and secret is not None and secret.get_secret_value():
            raise ValueError("cannot be used together with jwt_secret; configure only one of them")
        return value
