"""Every error Longtake raises on purpose.

Each has a stable ``code``, a sentence that names what was wrong, and a ``hint`` that says what to do next::

    LongtakeError
    ├── SettingsError                 SETTINGS_INVALID
    ├── DatabaseError
    │   ├── DatabaseUnavailable       DATABASE_UNAVAILABLE     cannot be reached now; trying again is right
    │   │   ├── DatabaseBusy          DATABASE_BUSY            too much is waiting, or somebody holds the lock
    │   │   └── DatabaseFull          DATABASE_FULL            no room on the disk
    │   ├── DatabaseReadOnly          DATABASE_READ_ONLY       a standby, or a file without write permission
    │   ├── DatabaseOwned             DATABASE_OWNED           another process owns the SQLite file
    │   ├── SchemaMismatch            SCHEMA_MISMATCH          migrations are missing, or newer than this program
    │   ├── RightsMissing             RIGHTS_MISSING           the database role may not do this
    │   └── TransactionEnded          TRANSACTION_ENDED        a function committed or rolled back by itself
    ├── OperatorError
    │   ├── UnknownAction             ACTION_UNKNOWN           there is no operator action of this name
    │   └── InvalidActionArgument     ACTION_ARGUMENT_INVALID  an argument of an operator action is wrong
    ├── ServerError
    │   ├── ServerUnreachable         SERVER_UNREACHABLE       no server answers where one should
    │   ├── CannotListen              LISTEN_FAILED            the address or port cannot be had
    │   └── ProcessFailed             PROCESS_FAILED           a part of the process ended by itself
    ├── InvalidApplication            APP_INVALID              --app names something that cannot be used
    ├── InvalidText                   TEXT_INVALID             too long, too short, or with control characters
    ├── InvalidCursor                 CURSOR_INVALID           `before` is not what a list has given
    ├── CreditsError
    │   ├── InvalidAmount             AMOUNT_INVALID           not a whole number of credits, or out of bounds
    │   └── InsufficientCredits       INSUFFICIENT_CREDITS     the balance is smaller than the price
    ├── AccountError
    │   ├── Unauthorized              UNAUTHORIZED             no token or key, or one that is not valid
    │   ├── Forbidden                 FORBIDDEN                a valid one that may not do this
    │   ├── RateLimited               RATE_LIMITED             too many requests of one user
    │   ├── KeySetUnavailable         KEY_SET_UNAVAILABLE      the keys that tokens are checked with cannot be had
    │   ├── AuthenticationRequired    AUTHENTICATION_REQUIRED  an open address without configured keys
    │   └── TokensElsewhere           TOKENS_ELSEWHERE         tokens are made by somebody else
    ├── VaultError
    │   ├── SecretFileUnusable        SECRET_FILE_UNUSABLE     secret.key is readable by others, or damaged
    │   └── VaultKeyWrong             VAULT_KEY_WRONG          a stored secret cannot be opened
    ├── NetError                                               a request to another server; `sent`: it may have arrived
    │   ├── AddressRefused            ADDRESS_REFUSED          the guard does not let us connect there
    │   ├── HostUnresolved            HOST_UNRESOLVED          the name has no address now
    │   ├── ConnectFailed             CONNECT_FAILED           no connection; the request was never sent
    │   ├── AnswerTimedOut            ANSWER_TIMED_OUT
    │   ├── ConnectionLost            CONNECTION_LOST
    │   ├── AnswerTooLarge            ANSWER_TOO_LARGE
    │   ├── AnswerTruncated           ANSWER_TRUNCATED
    │   └── AnswerInvalid             ANSWER_INVALID           not what HTTP or JSON allows
    ├── ProviderError                                          what a provider of media answered, or did not
    │   ├── ProviderBusy              PROVIDER_BUSY            too many requests; later is right
    │   ├── ProviderQuotaSpent        PROVIDER_QUOTA_SPENT     nothing more today
    │   ├── ProviderUnavailable       PROVIDER_UNAVAILABLE     down, or cannot be reached; later is right
    │   ├── ProviderUnauthorized      PROVIDER_UNAUTHORIZED    the key is missing, wrong or revoked
    │   ├── ProviderOutOfCredits      PROVIDER_OUT_OF_CREDITS
    │   ├── ProviderRefused           PROVIDER_REFUSED         this request will never be accepted
    │   ├── ProviderTaskNotFound      TASK_NOT_FOUND
    │   └── SubmitUnknown             SUBMIT_UNKNOWN           it may have been accepted, and may be paid for
    ├── StorageError
    │   ├── StorageUnavailable        STORAGE_UNAVAILABLE      cannot be used now; trying again is right
    │   │   └── StorageFull           STORAGE_FULL             no room for objects
    │   ├── StorageRefused            STORAGE_REFUSED          wrong keys, no such bucket, a folder that is not ours
    │   ├── ObjectMissing             OBJECT_MISSING           nothing is stored under this key
    │   ├── ObjectKeyInvalid          OBJECT_KEY_INVALID       not a key that we make
    │   └── ObjectTooLarge            OBJECT_TOO_LARGE         more bytes than are kept
    ├── AssetError
    │   ├── MediaRefused              MEDIA_REFUSED            not an image or video of a kind that we keep
    │   ├── ResultNotCopied           RESULT_NOT_COPIED        a copy failed; the next may succeed
    │   │   ├── SourceGone            SOURCE_GONE              the provider's address has ended
    │   │   └── SourceUnknown         SOURCE_UNKNOWN           the provider cannot be asked for another
    │   ├── AssetGone                 ASSET_GONE               it was there, and cannot be had any more
    │   └── LinkInvalid               LINK_INVALID             a signed link that is expired or was changed
    ├── GenerationError                                        a request for an image or video that was refused
    │   ├── UnknownModel              MODEL_UNKNOWN
    │   ├── UnknownParameter          PARAMETER_UNKNOWN
    │   ├── InvalidParameter          PARAMETER_INVALID
    │   ├── InvalidPrompt             PROMPT_INVALID
    │   ├── InvalidReferences         REFERENCES_INVALID
    │   ├── ProviderNotConfigured     PROVIDER_NOT_CONFIGURED  the model's provider has no key
    │   ├── PublicAddressMissing      PUBLIC_URL_MISSING       a provider could not fetch from here
    │   ├── TooManyTasks              TASKS_TOO_MANY           as many are under way as one user may have
    │   ├── InvalidPreference         PREFERENCE_INVALID       a Prefer header that cannot be followed
    │   ├── InvalidIdempotencyKey     IDEMPOTENCY_KEY_INVALID
    │   ├── IdempotencyKeyReused      IDEMPOTENCY_KEY_REUSED   with another request
    │   └── IdempotencyKeyInUse       IDEMPOTENCY_KEY_IN_USE   the first request is not finished
    └── EngineError
        ├── InvalidJob                JOB_INVALID              refused at enqueue
        │   ├── UnknownKind           KIND_UNKNOWN
        │   ├── UnknownLane           LANE_UNKNOWN
        │   ├── InvalidArguments      ARGUMENTS_INVALID
        │   ├── InvalidDelay          DELAY_INVALID
        │   ├── InvalidKey            KEY_INVALID
        │   └── InvalidPriority       PRIORITY_INVALID
        ├── InvalidDefinition         DEFINITION_INVALID       a kind, lane or schedule is declared wrongly
        ├── NotFound                  NOT_FOUND
        ├── StateConflict             STATE_CONFLICT           the job is not in a state that allows this
        └── LeaseLost                 LEASE_LOST               the job is no longer ours
"""

from typing import Any


class LongtakeError(Exception):
    """The root: a code for programs, a sentence for people, and what to do next."""

    code = "LONGTAKE_ERROR"
    default_hint = ""

    def __init__(self, message: str, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        #: What a program may want to know besides the sentence: a balance, a price, a limit.
        self.facts = facts


class SettingsError(LongtakeError):
    """A setting has a value that cannot be used."""

    code = "SETTINGS_INVALID"
    default_hint = "`longtake settings` lists every setting with its meaning and where its value came from."


class DatabaseError(LongtakeError):
    """The database refused, or could not be asked."""

    code = "DATABASE_ERROR"


class DatabaseUnavailable(DatabaseError):
    """The database cannot be reached now. Nothing was written; trying again is right."""

    code = "DATABASE_UNAVAILABLE"
    default_hint = "Check that the database runs and can be reached; work goes on by itself once it can."


class DatabaseBusy(DatabaseUnavailable):
    """More is waiting for the database than it can take, or somebody holds its lock."""

    code = "DATABASE_BUSY"
    default_hint = "Try again in a few seconds. If it stays so, look for a long transaction in another program."


class DatabaseFull(DatabaseUnavailable):
    """There is no room left. Nothing was written."""

    code = "DATABASE_FULL"
    default_hint = "Make room on the disk that holds the database; nothing needs to be restarted."


class DatabaseReadOnly(DatabaseError):
    """The database takes no writes: a standby, or a file without write permission."""

    code = "DATABASE_READ_ONLY"
    default_hint = "Point LONGTAKE_DATABASE_URL at the primary server, or make the file writable."


class DatabaseOwned(DatabaseError):
    """Another process owns the SQLite file."""

    code = "DATABASE_OWNED"
    default_hint = "Stop that process first, or use PostgreSQL to run several."


class SchemaMismatch(DatabaseError):
    """The tables are not those this version of Longtake was written for."""

    code = "SCHEMA_MISMATCH"
    default_hint = "Run `longtake migrate up`."


class RightsMissing(DatabaseError):
    """The database role is not allowed to do what was asked."""

    code = "RIGHTS_MISSING"


class TransactionEnded(DatabaseError):
    """A transaction function committed or rolled back by itself; only Database.run may do that."""

    code = "TRANSACTION_ENDED"
    default_hint = "Remove BEGIN, COMMIT, ROLLBACK and SAVEPOINT from the function; raise an exception to roll back."


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
    """The address or port cannot be had."""

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


class AccountError(LongtakeError):
    """Who asks is not known, or may not do what was asked."""

    code = "ACCOUNT_ERROR"


class Unauthorized(AccountError):
    """The token or key is missing, expired or not valid."""

    code = "UNAUTHORIZED"
    default_hint = "Send `Authorization: Bearer …` with a token or an API key; `longtake token` makes a token."


class Forbidden(AccountError):
    """The caller is known, but may not do this."""

    code = "FORBIDDEN"


class RateLimited(AccountError):
    """One user sends more requests than LONGTAKE_REQUESTS_PER_MINUTE allows."""

    code = "RATE_LIMITED"
    default_hint = "Wait as many seconds as Retry-After says, then go on more slowly."


class KeySetUnavailable(AccountError):
    """The keys that tokens are checked with could not be had yet, so no token can be checked."""

    code = "KEY_SET_UNAVAILABLE"
    default_hint = "Look at what LONGTAKE_JWT_JWKS names; it is tried again at most once a minute."


class AuthenticationRequired(AccountError):
    """The server would listen on an open address without keys that were configured on purpose."""

    code = "AUTHENTICATION_REQUIRED"
    default_hint = "Set LONGTAKE_JWT_SECRET or LONGTAKE_JWT_JWKS, or listen on 127.0.0.1."


class TokensElsewhere(AccountError):
    """Tokens are made by whoever holds the private keys of LONGTAKE_JWT_JWKS, not here."""

    code = "TOKENS_ELSEWHERE"
    default_hint = "Ask there for a token, or make an API key with `longtake keys create`."


class VaultError(LongtakeError):
    """Something secret cannot be kept or read."""

    code = "VAULT_ERROR"


class SecretFileUnusable(VaultError):
    """The file with this machine's secret is readable by others, damaged, or cannot be had."""

    code = "SECRET_FILE_UNUSABLE"


class VaultKeyWrong(VaultError):
    """A stored secret cannot be opened with the keys this process has. Nothing was changed."""

    code = "VAULT_KEY_WRONG"
    default_hint = (
        "Set LONGTAKE_MASTER_KEY (or LONGTAKE_SECRET_KEY, or bring back secret.key) to what it was when the secret was"
        " stored. If that is lost: `longtake secrets remove NAME`, then set it anew."
    )


class InvalidText(LongtakeError):
    """A text is empty, too long, or has characters that do not belong in one."""

    code = "TEXT_INVALID"


class InvalidCursor(LongtakeError):
    """Where to go on in a list is not something that a list has given."""

    code = "CURSOR_INVALID"
    default_hint = "Send `next` of the page before as it is, or leave `before` out to begin anew."


class CreditsError(LongtakeError):
    """Something asked of the ledger cannot be done. Nothing was written."""

    code = "CREDITS_ERROR"


class InvalidAmount(CreditsError):
    """The amount is not a whole number of credits, or is out of bounds."""

    code = "AMOUNT_INVALID"


class InsufficientCredits(CreditsError):
    """There are fewer credits than this costs; `balance` and `price` say how many."""

    code = "INSUFFICIENT_CREDITS"
    default_hint = "Ask an administrator for credits, or wait until tasks under way give back what they hold."


class NetError(LongtakeError):
    """A request to somebody else's server failed. `sent` is False only if the server cannot have seen it."""

    code = "NET_ERROR"

    def __init__(self, message: str, hint: str | None = None, *, sent: bool = False, **facts: Any) -> None:
        super().__init__(message, hint, **facts)
        self.sent = sent


class AddressRefused(NetError):
    """The address is not on the public internet, or is written so that it could be taken for another."""

    code = "ADDRESS_REFUSED"
    default_hint = "LONGTAKE_ALLOW_ADDRESSES names private addresses that may be used, such as 127.0.0.1/32."


class HostUnresolved(NetError):
    """The host's name has no address now. Nothing was sent; trying again is right."""

    code = "HOST_UNRESOLVED"
    default_hint = "Check the name, and that this machine can resolve names."


class ConnectFailed(NetError):
    """No connection could be made. Nothing was sent; trying again is right."""

    code = "CONNECT_FAILED"


class AnswerTimedOut(NetError):
    """The server did not answer in time."""

    code = "ANSWER_TIMED_OUT"


class ConnectionLost(NetError):
    """The connection ended before the answer."""

    code = "CONNECTION_LOST"


class AnswerTooLarge(NetError):
    """The answer has more bytes than it may have, or unpacks to more."""

    code = "ANSWER_TOO_LARGE"


class AnswerTruncated(NetError):
    """The answer ended before it was whole."""

    code = "ANSWER_TRUNCATED"


class AnswerInvalid(NetError):
    """The answer is not what HTTP or JSON allows, or leads in circles."""

    code = "ANSWER_INVALID"


class ProviderError(LongtakeError):
    """A provider of media did not do what it was asked."""

    code = "PROVIDER_ERROR"

    def __init__(self, message: str, hint: str | None = None, *, provider: str = "", **facts: Any) -> None:
        super().__init__(message, hint, provider=provider, **facts)
        self.provider = provider


class ProviderBusy(ProviderError):
    """The provider takes no more requests for the moment. Nothing was accepted."""

    code = "PROVIDER_BUSY"
    default_hint = "Work goes on by itself; a lower rate of the provider's lane avoids it: `longtake lanes set`."

    def __init__(
        self, message: str, hint: str | None = None, *, retry_after: float | None = None, provider: str = ""
    ) -> None:
        super().__init__(message, hint, provider=provider, retry_after=retry_after)
        #: Seconds the provider asked us to wait; None when it did not say.
        self.retry_after = retry_after


class ProviderQuotaSpent(ProviderError):
    """The provider's quota of the day is used up. Nothing was accepted."""

    code = "PROVIDER_QUOTA_SPENT"
    default_hint = "Work goes on by itself when the quota is renewed; the provider's console can raise it."

    def __init__(self, message: str, hint: str | None = None, *, reset: float = 0.0, provider: str = "") -> None:
        super().__init__(message, hint, provider=provider, reset=reset)
        #: Seconds until the quota is renewed.
        self.reset = reset


class ProviderUnavailable(ProviderError):
    """The provider is down or cannot be reached. Nothing was accepted; trying again is right."""

    code = "PROVIDER_UNAVAILABLE"

    def __init__(
        self, message: str, hint: str | None = None, *, retry_after: float | None = None, provider: str = ""
    ) -> None:
        super().__init__(message, hint, provider=provider, retry_after=retry_after)
        self.retry_after = retry_after


class ProviderUnauthorized(ProviderError):
    """The provider does not accept our key, or there is none."""

    code = "PROVIDER_UNAUTHORIZED"


class ProviderOutOfCredits(ProviderError):
    """Our account with the provider has no credits left."""

    code = "PROVIDER_OUT_OF_CREDITS"
    default_hint = "Add credits to the account with the provider, then resume its lane."


class ProviderRefused(ProviderError):
    """The provider will not do this, now or later: the request is invalid, or its content is not allowed."""

    code = "PROVIDER_REFUSED"

    def __init__(self, message: str, hint: str | None = None, *, fail_code: str = "", provider: str = "") -> None:
        super().__init__(message, hint, provider=provider, fail_code=fail_code)
        #: The provider's own word for the reason.
        self.fail_code = fail_code


class ProviderTaskNotFound(ProviderError):
    """The provider does not know the task."""

    code = "TASK_NOT_FOUND"


class SubmitUnknown(ProviderError):
    """The provider may have accepted the request: there was no answer that can be understood."""

    code = "SUBMIT_UNKNOWN"
    default_hint = "Look for the task in the provider's own list before it is asked again: it may be paid for already."


class StorageError(LongtakeError):
    """Objects could not be written or read."""

    code = "STORAGE_ERROR"


class StorageUnavailable(StorageError):
    """The store of objects cannot be used now. Trying again is right."""

    code = "STORAGE_UNAVAILABLE"
    default_hint = "Check that the store runs and can be reached; work goes on by itself once it can."


class StorageFull(StorageUnavailable):
    """There is no room for objects. Nothing was kept of this one."""

    code = "STORAGE_FULL"
    default_hint = "Make room where LONGTAKE_STORAGE_URL points; nothing needs to be restarted."


class StorageRefused(StorageError):
    """The store does not let us in: wrong keys, no such bucket, or a folder that this user may not write."""

    code = "STORAGE_REFUSED"
    default_hint = "Check LONGTAKE_STORAGE_URL, and that this user may read and write there."


class ObjectMissing(StorageError):
    """There is no object under this key."""

    code = "OBJECT_MISSING"


class ObjectKeyInvalid(StorageError):
    """The key is not one that Longtake makes."""

    code = "OBJECT_KEY_INVALID"


class ObjectTooLarge(StorageError):
    """The object has more bytes than are kept; `limit` says how many that are."""

    code = "OBJECT_TOO_LARGE"


class AssetError(LongtakeError):
    """A media file cannot be taken or given."""

    code = "ASSET_ERROR"


class MediaRefused(AssetError):
    """The bytes are not an image or video of a kind that is kept."""

    code = "MEDIA_REFUSED"
    default_hint = "Kept are PNG, JPEG, WebP and GIF images, and MP4, QuickTime and WebM videos."


class ResultNotCopied(AssetError):
    """A result could not be copied to our storage this time."""

    code = "RESULT_NOT_COPIED"


class SourceGone(ResultNotCopied):
    """The provider's address of a result has ended, or its file is not there."""

    code = "SOURCE_GONE"


class SourceUnknown(ResultNotCopied):
    """The provider could not be asked for a new address of a result."""

    code = "SOURCE_UNKNOWN"


class AssetGone(AssetError):
    """The asset was there, but its file cannot be had any more."""

    code = "ASSET_GONE"


class LinkInvalid(AssetError):
    """The signed link has expired, or was changed."""

    code = "LINK_INVALID"
    default_hint = "Ask for the task or asset again: its answer has a new link."


class GenerationError(LongtakeError):
    """A request for an image or video was refused. Nothing was written and nothing is held."""

    code = "GENERATION_ERROR"


class UnknownModel(GenerationError):
    """There is no such model, or it makes something else."""

    code = "MODEL_UNKNOWN"


class UnknownParameter(GenerationError):
    """The model has no such parameter."""

    code = "PARAMETER_UNKNOWN"


class InvalidParameter(GenerationError):
    """A parameter's value is not one the model takes."""

    code = "PARAMETER_INVALID"
    default_hint = "GET /v1/models shows each parameter with its limits."


class InvalidPrompt(GenerationError):
    """The prompt is empty, too long or not text."""

    code = "PROMPT_INVALID"


class InvalidReferences(GenerationError):
    """Too few or too many reference images, or one that is not there."""

    code = "REFERENCES_INVALID"


class ProviderNotConfigured(GenerationError):
    """The model's provider has no key here, so nothing could be made."""

    code = "PROVIDER_NOT_CONFIGURED"
    default_hint = "Set its key: `longtake settings` names the setting, `longtake secrets set` keeps one sealed."


class PublicAddressMissing(GenerationError):
    """The provider fetches files itself, and this server has no address where it could."""

    code = "PUBLIC_URL_MISSING"
    default_hint = "Set LONGTAKE_PUBLIC_URL, or keep objects in S3; or use a model that takes images directly."


class TooManyTasks(GenerationError):
    """As many tasks are under way as one user may have."""

    code = "TASKS_TOO_MANY"
    default_hint = "GET /v1/tasks/pending lists them; cancel some or wait."


class InvalidPreference(GenerationError):
    """A Prefer header asks for what cannot be done."""

    code = "PREFERENCE_INVALID"


class InvalidIdempotencyKey(GenerationError):
    """An Idempotency-Key that cannot be kept."""

    code = "IDEMPOTENCY_KEY_INVALID"


class IdempotencyKeyReused(GenerationError):
    """The same Idempotency-Key came with another request."""

    code = "IDEMPOTENCY_KEY_REUSED"
    default_hint = "Use a new key for a new request; the same key only to repeat the very same one."


class IdempotencyKeyInUse(GenerationError):
    """The first request with this Idempotency-Key is not finished."""

    code = "IDEMPOTENCY_KEY_IN_USE"
    default_hint = "Repeat it in a second: then you get the first answer."


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
    default_hint = "Stop working on this job: whatever it would write is refused."
