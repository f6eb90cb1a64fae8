"""Who may use the service, and how much each user may ask for."""

from pydantic import BaseModel, Field, SecretStr, ValidationInfo, field_validator

from longtake.settings.secrets import check_key_set, check_master_keys, check_secret


class UserSettings(BaseModel):
    """Who may use the service, and how much each user may ask for."""

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
    failed_logins_per_minute: int = Field(
        default=60,
        ge=1,
        le=1_000_000,
        description="Refused tokens and keys that one address may send in a minute; a tenth of it at once.",
        examples=[60],
    )
    streams_per_user: int = Field(
        default=20,
        ge=1,
        le=100_000,
        description="Streams of events one user may have open at one server.",
        examples=[20],
    )
    streams: int = Field(
        default=5_000,
        ge=1,
        le=100_000,
        description="Streams of events that one server keeps open at once.",
        examples=[5_000],
    )
    unfinished_tasks: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Tasks one user may have under way.",
        examples=[1000],
    )
    unfinished_imports: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Files of their own that one user may have under way to our storage.",
        examples=[1000],
    )

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
