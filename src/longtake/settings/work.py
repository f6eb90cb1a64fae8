"""Settings for logs, workers and how long rows are kept."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from longtake.settings.checks import InternalSecret

#: Seconds after stop_grace_seconds to write outcomes and sign off. Then the process ends, even without a database.
FAREWELL_SECONDS = 10.0


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class WorkSettings(BaseModel):
    """Settings for logs, workers and how long rows are kept."""

    log_format: Annotated[Literal["auto", "json", "human"], BeforeValidator(_lower)] = Field(
        default="auto",
        description="Format of log lines: json, human, or auto (human on a terminal, json elsewhere).",
        examples=["json"],
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)] = Field(
        default="info", description="Lowest level that is logged: debug, info, warning or error.", examples=["debug"]
    )
    worker_concurrency: int = Field(
        default=200, ge=1, le=10_000, description="Jobs that one worker process runs at the same time."
    )
    poll_seconds: float = Field(
        default=1.0,
        ge=0.01,
        le=60,
        description="Longest time between two checks for due jobs, in seconds, if no wake-up arrives.",
    )
    stop_grace_seconds: float = Field(
        default=20.0,
        ge=0,
        le=3600,
        description=(
            "Seconds that running jobs get to finish when a worker stops. The rest go back to the queue and keep"
            " their attempt."
        ),
    )
    lease_seconds: float = Field(
        default=30.0,
        ge=0.2,
        le=3600,
        description="Seconds without a heartbeat after which a worker counts as dead and loses its jobs.",
    )
    heartbeat_seconds: float = Field(
        default=10.0,
        ge=0.05,
        le=1800,
        description="Seconds between two heartbeats of a worker; must be less than half of lease_seconds.",
    )
    internal_secret: InternalSecret = Field(
        default=SecretStr(""),
        description="Secret for POST /v1/internal/process, which runs queued jobs. If empty, the route does not exist.",
        examples=["write-at-least-16-random-characters-here"],
    )
    app: str = Field(
        default="",
        pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="Function that declares your own job kinds, as module:function; empty for none.",
        examples=["shop.jobs:register"],
    )
    history_days: int = Field(default=30, ge=1, le=36_500, description="Days to keep ended jobs.")
    events_days: int = Field(default=7, ge=1, le=36_500, description="Days to keep events.")
    webhook_days: int = Field(default=30, ge=1, le=36_500, description="Days to keep webhook deliveries.")
    task_days: int = Field(
        default=0,
        ge=0,
        le=36_500,
        description="Days to keep ended tasks with their messages, results and files; 0 keeps them forever.",
        examples=[365],
    )

    @field_validator("heartbeat_seconds")
    @classmethod
    def _check_heartbeat(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease_seconds")
        if lease is not None and not value < lease / 2:
            raise ValueError(
                f"must be less than half of lease_seconds ({lease:g}), or one late heartbeat loses the job"
            )
        return value
