"""Of the program itself: settings, operators' actions, servers and processes."""

from longtake.errors.base import LongtakeError


class SettingsError(LongtakeError):
    """A setting has a value that cannot be used."""

    code = "SETTINGS_INVALID"
    default_hint = "`longtake settings` lists every setting with its meaning and where its value came from."


class OperatorError(LongtakeError):
    """What an operator asked for was not understood. Nothing was done."""

    code = "OPERATOR_ERROR"


class UnknownAction(OperatorError):
    """There is no operator action of this name."""

    code = "ACTION_UNKNOWN"


class InvalidActionArgument(OperatorError):
    """An argument of an operator action is missing, misspelt or wrong."""

    code = "ACTION_ARGUMENT_INVALID"


class ServerError(LongtakeError):
    """The server could not be started, or could not be asked."""

    code = "SERVER_ERROR"


class ServerUnreachable(ServerError):
    """No server answers where one should."""

    code = "SERVER_UNREACHABLE"
    default_hint = "Look at the server's log; `longtake serve` starts one."


class CannotListen(ServerError):
    """The address or port is not available."""

    code = "LISTEN_FAILED"
    default_hint = "Choose another with --host and --port, or stop the program that has it."


class ProcessFailed(ServerError):
    """A part of the process, such as its worker, ended by itself. Its jobs are rescued by the next worker."""

    code = "PROCESS_FAILED"
    default_hint = "This should not happen: the log has the details. Start the process again; no job is lost."


class InvalidApplication(LongtakeError):
    """What --app names cannot be loaded, or declares something that cannot work."""

    code = "APP_INVALID"
    default_hint = "Example: --app shop.jobs:register, where register(application) calls application.add(kinds=[…])."
