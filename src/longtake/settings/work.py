"""How work is done, logged and kept."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from longtake.settings.secrets import check_secret

#: As much as a shared secret needs that is only ever tried over the network.
INTERNAL_SECRET_CHARACTERS = 16
#: For what comes after stop_grace_seconds: writing outcomes, saying good-bye. A lost database must not keep a process.
FAREWELL_SECONDS = 10.0


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class WorkSettings(BaseModel):
    """How work is done, logged and kept."""

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
    internal_secret: SecretStr = Field(
        default=SecretStr(""),
        description="Secret with which POST /v1/internal/process works off the queue; empty: there is no such route.",
        examples=["write-at-least-16-random-characters-here"],
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
    webhook_days: int = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Days for which deliveries to webhooks are kept.",
        examples=[30],
    )
    task_days: int = Field(
        default=0,
        ge=0,
        le=36_500,
        description="Days for which ended tasks are kept, with messages, results and files; 0 for ever.",
        examples=[365],
    )

    @field_validator("internal_secret")
    @classmethod
    def _check_internal_secret(cls, value: SecretStr) -> SecretStr:
        return check_secret(value, INTERNAL_SECRET_CHARACTERS)

    @field_validator("heartbeat_seconds")
    @classmethod
    def _check_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease_seconds")
        if lease is not None and not value < lease / 2:
            raise ValueError(f"must be less than half of lease_seconds ({lease:g}), or one late beat loses the job")
        return value
