"""Of jobs."""

from longtake.errors.base import LongtakeError


class EngineError(LongtakeError):
    """Something asked of the engine cannot be done."""

    code = "ENGINE_ERROR"


class InvalidJob(EngineError):
    """A job was refused at enqueue. Nothing was written."""

    code = "JOB_INVALID"


class UnknownKind(InvalidJob):
    """No handler of this name was ever declared in this database."""

    code = "KIND_UNKNOWN"


class UnknownLane(InvalidJob):
    """No lane of this name exists."""

    code = "LANE_UNKNOWN"
    default_hint = "`longtake lanes list` shows the lanes there are; `longtake lanes set NAME` makes one."


class InvalidArguments(InvalidJob):
    """The arguments are not JSON, or too large."""

    code = "ARGUMENTS_INVALID"
    default_hint = "Pass ids of rows or keys of objects instead of the data itself."


class InvalidDelay(InvalidJob):
    """The delay is negative, or not a number."""

    code = "DELAY_INVALID"


class InvalidKey(InvalidJob):
    """The key is empty or too long."""

    code = "KEY_INVALID"


class InvalidPriority(InvalidJob):
    """The priority is not one of the known ones."""

    code = "PRIORITY_INVALID"


class InvalidDefinition(EngineError):
    """A kind, lane or schedule was declared in a way that cannot work."""

    code = "DEFINITION_INVALID"


class NotFound(EngineError):
    """There is no such job, lane or schedule."""

    code = "NOT_FOUND"


class StateConflict(EngineError):
    """The job is not in a state that allows this."""

    code = "STATE_CONFLICT"


class LeaseLost(EngineError):
    """The job is no longer ours: it was cancelled, or rescued from a worker that seemed dead."""

    code = "LEASE_LOST"
    default_hint = "Stop working on this job: what it would write is refused."
