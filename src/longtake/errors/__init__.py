"""Every error Longtake raises on purpose.

Each has a stable ``code``, a sentence that names what was wrong, and a ``hint`` that says what to do next::

    LongtakeError
    ├── SettingsError                 SETTINGS_INVALID
    ├── DatabaseError
    │   ├── DatabaseUnavailable       DATABASE_UNAVAILABLE     cannot be reached now; trying again is right
    │   │   ├── DatabaseBusy          DATABASE_BUSY            too much is waiting, or the lock is taken
    │   │   ├── DatabaseFull          DATABASE_FULL            no room on the disk
    │   │   └── DatabaseRefused       DATABASE_REFUSED         it is there, and does not let this role in
    │   ├── DatabaseReadOnly          DATABASE_READ_ONLY       a standby, or a file without write permission
    │   ├── DatabaseOwned             DATABASE_OWNED           another process owns the SQLite file
    │   ├── SchemaMismatch            SCHEMA_MISMATCH          migrations are missing, or newer than this program
    │   ├── RightsMissing             RIGHTS_MISSING           the database role may not do this
    │   ├── RoleTooPowerful           ROLE_TOO_POWERFUL        row level security does not bind the database role
    │   └── TransactionEnded          TRANSACTION_ENDED        a function committed or rolled back by itself
    ├── OperatorError
    │   ├── UnknownAction             ACTION_UNKNOWN           there is no operator action of this name
    │   └── InvalidActionArgument     ACTION_ARGUMENT_INVALID  an argument of an operator action is wrong
    ├── ServerError
    │   ├── ServerUnreachable         SERVER_UNREACHABLE       no server answers where one should
    │   ├── CannotListen              LISTEN_FAILED            the address or port is not available
    │   └── ProcessFailed             PROCESS_FAILED           a part of the process ended by itself
    ├── InvalidApplication            APP_INVALID              --app names something that cannot be used
    ├── InvalidText                   TEXT_INVALID             too long, too short, or with control characters
    ├── InvalidCursor                 CURSOR_INVALID           where to go on is not what a list or stream has given
    ├── TooManyStreams                STREAMS_TOO_MANY         as many streams of events are open as may be
    ├── InternalSecretRefused         INTERNAL_SECRET_REFUSED  X-Internal-Secret is missing or wrong
    ├── TooManyProcessings            PROCESSINGS_TOO_MANY     as many requests process the queue as may at once
    ├── CreditsError
    │   ├── InvalidAmount             AMOUNT_INVALID           not a whole number of credits, or out of bounds
    │   └── InsufficientCredits       INSUFFICIENT_CREDITS     the balance is smaller than the price
    ├── AccountError
    │   ├── Unauthorized              UNAUTHORIZED             no token or key, or one that is not valid
    │   ├── Forbidden                 FORBIDDEN                a valid one that may not do this
    │   ├── RateLimited               RATE_LIMITED             too many requests of one user, or refusals of one address
    │   ├── KeySetUnavailable         KEY_SET_UNAVAILABLE      the keys that tokens are checked with were not fetched
    │   ├── AuthenticationRequired    AUTHENTICATION_REQUIRED  an open address without configured keys
    │   └── TokensElsewhere           TOKENS_ELSEWHERE         tokens are made elsewhere
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
    │   ├── DecoderFailed             DECODER_FAILED           the process that decodes was stopped, or died of a file
    │   ├── DecodersBusy              DECODERS_BUSY            all of them are at work; trying again is right
    │   ├── ResultNotCopied           RESULT_NOT_COPIED        a copy failed; the next may succeed
    │   │   ├── SourceGone            SOURCE_GONE              the provider's address has ended
    │   │   └── SourceUnknown         SOURCE_UNKNOWN           the provider cannot be asked for another
    │   ├── AssetGone                 ASSET_GONE               its file is gone
    │   ├── TooManyImports            IMPORTS_TOO_MANY         as many are being brought in as one user may have
    │   ├── ImportFileInvalid         IMPORT_FILE_INVALID      a list of files that cannot be understood
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
    │   ├── InvalidSceneCount         SCENE_COUNT_INVALID      a run of another number of scenes than there are
    │   ├── ModelNotForScenes         MODEL_NOT_FOR_SCENES     it does not answer at once, or not twice
    │   ├── InvalidPreference         PREFERENCE_INVALID       a Prefer header that cannot be followed
    │   ├── InvalidIdempotencyKey     IDEMPOTENCY_KEY_INVALID
    │   ├── IdempotencyKeyReused      IDEMPOTENCY_KEY_REUSED   with another request
    │   └── IdempotencyKeyInUse       IDEMPOTENCY_KEY_IN_USE   the first request is not finished
    ├── CatalogueError
    │   ├── InvalidTitle              TITLE_INVALID            no Bangumi id and no name, or a field that is wrong
    │   └── PosterError                                        a poster could not be fetched
    │       ├── PosterUnreachable     POSTER_UNREACHABLE       the request failed
    │       ├── PosterStatus          POSTER_HTTP_STATUS       an answer that is no picture
    │       ├── PosterBroken          POSTER_BROKEN            not a whole picture
    │       ├── PosterIo              POSTER_IO                our own storage; names operation and path
    │       └── PosterPathInvalid     POSTER_PATH_INVALID      neither an address nor a poster of ours
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
