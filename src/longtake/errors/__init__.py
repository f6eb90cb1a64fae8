"""Every error Longtake raises on purpose.

Each has a stable ``code``, a message that says what is wrong, and a ``hint`` that says what to do next::

    LongtakeError
    ├── SettingsError                 SETTINGS_INVALID
    ├── DatabaseError
    │   ├── DatabaseUnavailable       DATABASE_UNAVAILABLE     cannot be reached now; you can try again
    │   │   ├── DatabaseBusy          DATABASE_BUSY            too many calls are waiting, or the lock is taken
    │   │   ├── DatabaseFull          DATABASE_FULL            no room left
    │   │   └── DatabaseRefused       DATABASE_REFUSED         the server answers, but refuses the login
    │   ├── DatabaseReadOnly          DATABASE_READ_ONLY       a standby, or a file without write permission
    │   ├── DatabaseOwned             DATABASE_OWNED           another process owns the SQLite file
    │   ├── SchemaMismatch            SCHEMA_MISMATCH          migrations are missing, or newer than this program
    │   ├── RightsMissing             RIGHTS_MISSING           the database role lacks a permission
    │   ├── RoleTooPowerful           ROLE_TOO_POWERFUL        row level security does not apply to the role
    │   └── TransactionEnded          TRANSACTION_ENDED        a function committed or rolled back
    ├── OperatorError
    │   ├── UnknownAction             ACTION_UNKNOWN           no operator action with this name
    │   └── InvalidActionArgument     ACTION_ARGUMENT_INVALID  an argument of an operator action is wrong
    ├── ServerError
    │   ├── ServerUnreachable         SERVER_UNREACHABLE       the server did not start, or does not answer
    │   ├── CannotListen              LISTEN_FAILED            the address or port is not available
    │   └── ProcessFailed             PROCESS_FAILED           a part of the process stopped unexpectedly
    ├── InvalidApplication            APP_INVALID              the function that --app names cannot be used
    ├── InvalidText                   TEXT_INVALID             too long, too short, or with control characters
    ├── InvalidCursor                 CURSOR_INVALID           does not come from a list or a stream
    ├── TooManyStreams                STREAMS_TOO_MANY         the maximum number of event streams is open
    ├── InternalSecretRefused         INTERNAL_SECRET_REFUSED  X-Internal-Secret is missing or wrong
    ├── TooManyProcessings            PROCESSINGS_TOO_MANY     too many requests are processing the queue
    ├── CreditsError
    │   ├── InvalidAmount             AMOUNT_INVALID           not a whole number of credits, or out of range
    │   └── InsufficientCredits       INSUFFICIENT_CREDITS     the balance is lower than the price
    ├── AccountError
    │   ├── Unauthorized              UNAUTHORIZED             no valid token or key
    │   ├── Forbidden                 FORBIDDEN                a valid one, but without permission for this
    │   ├── RateLimited               RATE_LIMITED             too many requests of a user, or refusals of an address
    │   ├── KeySetUnavailable         KEY_SET_UNAVAILABLE      the keys that verify tokens were not fetched yet
    │   ├── AuthenticationRequired    AUTHENTICATION_REQUIRED  listening beyond this machine without configured keys
    │   └── TokensElsewhere           TOKENS_ELSEWHERE         another issuer makes the tokens
    ├── VaultError
    │   ├── SecretFileUnusable        SECRET_FILE_UNUSABLE     secret.key is readable by others, or damaged
    │   └── VaultKeyWrong             VAULT_KEY_WRONG          a stored secret cannot be decrypted
    ├── NetError                                               a request to another server; `sent`: it may have arrived
    │   ├── AddressRefused            ADDRESS_REFUSED          Longtake may not connect to this address
    │   ├── HostUnresolved            HOST_UNRESOLVED          the host name does not resolve now
    │   ├── ConnectFailed             CONNECT_FAILED           no connection; the request was never sent
    │   ├── AnswerTimedOut            ANSWER_TIMED_OUT
    │   ├── ConnectionLost            CONNECTION_LOST
    │   ├── AnswerTooLarge            ANSWER_TOO_LARGE
    │   ├── AnswerTruncated           ANSWER_TRUNCATED
    │   └── AnswerInvalid             ANSWER_INVALID           not valid HTTP or JSON
    ├── ProviderError                                          an error of a media provider
    │   ├── ProviderBusy              PROVIDER_BUSY            too many requests; try again later
    │   ├── ProviderQuotaSpent        PROVIDER_QUOTA_SPENT     the daily quota is used up
    │   ├── ProviderUnavailable       PROVIDER_UNAVAILABLE     down or unreachable; try again later
    │   │   └── ProviderTimeout       PROVIDER_TIMEOUT         no answer in the time that a job gives it
    │   ├── ProviderUnauthorized      PROVIDER_UNAUTHORIZED    the key is missing, wrong or revoked
    │   ├── ProviderOutOfCredits      PROVIDER_OUT_OF_CREDITS
    │   ├── ProviderRefused           PROVIDER_REFUSED         this request will never be accepted
    │   ├── ProviderTaskNotFound      TASK_NOT_FOUND
    │   └── SubmitUnknown             SUBMIT_UNKNOWN           may have been accepted, and may be charged
    ├── StorageError
    │   ├── StorageUnavailable        STORAGE_UNAVAILABLE      cannot be used now; you can try again
    │   │   └── StorageFull           STORAGE_FULL             no room for objects
    │   ├── StorageRefused            STORAGE_REFUSED          wrong keys, no such bucket, or no write permission
    │   ├── ObjectMissing             OBJECT_MISSING           no object with this key
    │   ├── ObjectKeyInvalid          OBJECT_KEY_INVALID       not a key that Longtake makes
    │   └── ObjectTooLarge            OBJECT_TOO_LARGE         larger than the limit
    ├── AssetError
    │   ├── MediaRefused              MEDIA_REFUSED            not an image or video in a supported format
    │   ├── DecoderFailed             DECODER_FAILED           the decoder process reached its limits, or crashed
    │   ├── DecodersBusy              DECODERS_BUSY            all decoders are busy; you can try again
    │   ├── ResultNotCopied           RESULT_NOT_COPIED        a copy failed; the next one may succeed
    │   │   ├── SourceGone            SOURCE_GONE              the provider's address has expired
    │   │   └── SourceUnknown         SOURCE_UNKNOWN           the provider cannot be asked for a new address
    │   ├── AssetGone                 ASSET_GONE               its file is gone
    │   ├── TooManyImports            IMPORTS_TOO_MANY         the user has too many imports under way
    │   ├── ImportFileInvalid         IMPORT_FILE_INVALID      a list of files that cannot be parsed
    │   └── LinkInvalid               LINK_INVALID             a signed link that expired or was altered
    ├── GenerationError                                        a refused request for an image or video
    │   ├── UnknownModel              MODEL_UNKNOWN
    │   ├── UnknownParameter          PARAMETER_UNKNOWN
    │   ├── InvalidParameter          PARAMETER_INVALID
    │   ├── InvalidPrompt             PROMPT_INVALID
    │   ├── InvalidReferences         REFERENCES_INVALID
    │   ├── ProviderNotConfigured     PROVIDER_NOT_CONFIGURED  the model's provider has no key
    │   ├── PublicAddressMissing      PUBLIC_URL_MISSING       the provider has no address to fetch files from
    │   ├── TooManyTasks              TASKS_TOO_MANY           the user has too many unfinished tasks
    │   ├── InvalidSceneCount         SCENE_COUNT_INVALID      a number of scenes that a run cannot have
    │   ├── ModelNotForScenes         MODEL_NOT_FOR_SCENES     does not answer at once, or is not safe to repeat
    │   ├── InvalidPreference         PREFERENCE_INVALID       a Prefer header that is not possible
    │   ├── InvalidIdempotencyKey     IDEMPOTENCY_KEY_INVALID
    │   ├── IdempotencyKeyReused      IDEMPOTENCY_KEY_REUSED   used for a different request
    │   └── IdempotencyKeyInUse       IDEMPOTENCY_KEY_IN_USE   the first request has not finished
    ├── CatalogueError
    │   ├── InvalidTitle              TITLE_INVALID            no Bangumi id and no name, or a wrong field
    │   └── PosterError                                        a poster could not be fetched
    │       ├── PosterUnreachable     POSTER_UNREACHABLE       the request failed
    │       ├── PosterStatus          POSTER_HTTP_STATUS       a status that carries no picture
    │       ├── PosterBroken          POSTER_BROKEN            not a complete picture
    │       ├── PosterIo              POSTER_IO                Longtake's storage failed; names operation and path
    │       └── PosterPathInvalid     POSTER_PATH_INVALID      neither an address nor a stored poster
    └── EngineError
        ├── InvalidJob                JOB_INVALID              refused at enqueue
        │   ├── UnknownKind           KIND_UNKNOWN
        │   ├── UnknownLane           LANE_UNKNOWN
        │   ├── InvalidArguments      ARGUMENTS_INVALID
        │   ├── InvalidDelay          DELAY_INVALID
        │   ├── InvalidKey            KEY_INVALID
        │   └── InvalidPriority       PRIORITY_INVALID
        ├── InvalidDefinition         DEFINITION_INVALID       a kind, lane or schedule that cannot work
        ├── NotFound                  NOT_FOUND
        ├── StateConflict             STATE_CONFLICT           the current state does not allow this
        └── LeaseLost                 LEASE_LOST               this worker no longer holds the job
"""

from longtake.errors.accounts import *
from longtake.errors.assets import *
from longtake.errors.base import *
from longtake.errors.catalogue import *
from longtake.errors.database import *
from longtake.errors.engine import *
from longtake.errors.generation import *
from longtake.errors.net import *
from longtake.errors.providers import *
from longtake.errors.requests import *
from longtake.errors.scenes import *
from longtake.errors.service import *
from longtake.errors.storage import *
