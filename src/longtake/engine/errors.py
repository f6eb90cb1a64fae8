"""Errors of jobs, kinds, lanes and schedules."""

from longtake.errors import LongtakeError


class EngineError(LongtakeError):
    """The engine cannot do what was requested."""

    code = "ENGINE_ERROR"


class InvalidJob(EngineError):
    """The job was refused when it was enqueued. Nothing was written."""

    code = "JOB_INVALID"
    http_status = 422


class UnknownKind(InvalidJob):
    """No handler with this name was ever declared in this database."""

    code = "KIND_UNKNOWN"


class UnknownLane(InvalidJob):
    """There is no lane with this name."""

    code = "LANE_UNKNOWN"
    default_hint = "`longtake lanes list` shows all lanes; `longtake lanes set NAME` makes one."


class InvalidArguments(InvalidJob):
    """The arguments are not JSON, or are too large."""

    code = "ARGUMENTS_INVALID"
    default_hint = "Pass row ids or object keys instead of the data itself."


class InvalidDelay(InvalidJob):
    """The delay is negative, or not a number."""

    code = "DELAY_INVALID"


class InvalidKey(InvalidJob):
    """The key is empty or too long."""

    code = "KEY_INVALID"


class InvalidPriority(InvalidJob):
    """The priority is not one of the known priorities."""

    code = "PRIORITY_INVALID"


class InvalidDefinition(EngineError):
    """A kind, lane or schedule was declared in a way that cannot work."""

    code = "DEFINITION_INVALID"
    http_status = 422
    exit_code = 2


class LeaseLost(EngineError):
    """This worker no longer holds the job: it was cancelled, or rescued because the worker seemed dead."""

    code = "LEASE_LOST"
    http_status = 409
    default_hint = "Stop working on this job: its writes are refused."
