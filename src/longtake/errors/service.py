"""Of the program itself: settings, operators' actions, servers and processes."""

from longtake.errors.base import LongtakeError


class SettingsError(LongtakeError):
    """A setting has a value that cannot be used."""

    code = "SETTINGS_INVALID"
    default_hint = "`longtake settings` lists every setting, its meaning, and where its value came from."


class OperatorError(LongtakeError):
    """An operator's request was not understood. Nothing was done."""

    code = "OPERATOR_ERROR"


class UnknownAction(OperatorError):
    """There is no operator action with this name."""

    code = "ACTION_UNKNOWN"


class InvalidActionArgument(OperatorError):
    """An argument of an operator action is missing, misspelt or wrong."""

    code = "ACTION_ARGUMENT_INVALID"


class ServerError(LongtakeError):
    """The server could not be started, or could not be asked."""

    code = "SERVER_ERROR"


class ServerUnreachable(ServerError):
    """The server did not start, or does not answer at its address."""

    code = "SERVER_UNREACHABLE"
    default_hint = "Read the server's log, or start a server with `longtake serve`."


class CannotListen(ServerError):
    """The server cannot listen on this address or port."""

    code = "LISTEN_FAILED"
    default_hint = "Choose another with --host and --port, or stop the program that uses it."


class ProcessFailed(ServerError):
    """A part of the process, such as its worker, stopped unexpectedly. The next worker rescues its jobs."""

    code = "PROCESS_FAILED"
    default_hint = "This should not happen. The log has the details. Start the process again: no job is lost."


class InvalidApplication(LongtakeError):
    """The function that --app names cannot be loaded, or declares something that cannot work."""

    code = "APP_INVALID"
    default_hint = "Example: --app shop.jobs:register, where register(application) calls application.add(kinds=[…])."
