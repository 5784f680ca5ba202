"""Every exception of jetspark.

::

    Error
    ├── ApiError                        a server refused a request: code, err_code, description
    │   ├── BadRequest                  unreadable or contradictory
    │   ├── JetStreamNotEnabled
    │   ├── NotFound
    │   │   ├── StreamNotFound
    │   │   ├── ConsumerNotFound
    │   │   └── MessageNotFound
    │   ├── StreamExists
    │   ├── SubjectsOverlap
    │   ├── ConsumerExists
    │   ├── ExpectationFailed           a Nats-Expected-* header did not hold
    │   │   ├── WrongLastSequence       .actual
    │   │   ├── WrongLastMsgId
    │   │   └── WrongStream
    │   ├── MinLastSequence             a read that must see a sequence did not (ADR-53)
    │   ├── ApiLevelRequired
    │   ├── MessageTooLarge
    │   ├── StreamSealed
    │   ├── StoreFailed                 the disk
    │   ├── StreamFull                  a limit, with discard: new
    │   ├── InsufficientResources
    │   ├── TooManyRequests
    │   ├── TemporarilyUnavailable
    │   ├── TooManyResults
    │   └── BatchRejected               ADR-50
    │       ├── BatchNotEnabled
    │       ├── BatchIncomplete
    │       ├── BatchTooLarge
    │       ├── BatchDuplicate
    │       └── TooManyBatches
    ├── InvalidState                    not possible in the current state
    │   ├── AlreadyClaimed
    │   └── AlreadyEnded
    ├── ConnectionClosed
    ├── ConnectFailed
    │   ├── AuthorizationFailed
    │   └── BadCredentials              also a ValueError
    ├── ServerRefused                   -ERR that does not close the connection
    │   └── PermissionsViolation
    ├── ProtocolViolation               by the peer
    ├── BufferFull
    ├── PayloadTooLarge                 also a ValueError
    ├── BadSubject                      also a ValueError
    ├── BadName                         also a ValueError
    ├── RequestTimeout                  also a TimeoutError
    ├── NoResponders
    ├── SlowConsumer
    ├── NotSupported
    ├── MissingExtra                    also an ImportError: a package is not installed
    ├── ReadOnly
    ├── AmbiguousSubject                several streams match
    ├── SubscribeRefused                ADR-15
    ├── HeartbeatMissed
    ├── ConsumerGap
    ├── NotJetStreamMessage             also a ValueError
    ├── StatusReceived
    │   ├── PullRefused
    │   │   └── ConsumerDeleted
    │   └── PinIdMismatch
    ├── BucketNotFound                  also a LookupError
    ├── BucketExists
    ├── KeyNotFound                     also a LookupError
    ├── KeyExists
    ├── CodecFailed                     also a ValueError
    ├── InvalidSchema                   also a ValueError
    ├── IncompatibleSchema              also a ValueError: .problems
    ├── PayloadMismatch                 also a ValueError
    ├── SchemaNotFound                  also a LookupError
    ├── ObjectNotFound                  also a LookupError
    ├── ObjectExists
    ├── FolderRefused                   also a ValueError: .problems
    ├── BackupFailed
    ├── DigestMismatch
    │   └── ObjectIncomplete
    └── StorageFault                    between the engine and the disk
        ├── StoreFull
        ├── StoreClosed
        ├── StoreReadOnly
        ├── StoreLocked
        ├── WrongStoreFormat
        ├── ReadFailed
        └── CorruptRecord
            └── UnknownRecordKind

All of them pickle and copy. `api_error` creates the exception for a server's error body,
`status_error` the one for a status line, `error_body` the JSON of a server's error answer.
"""

from jetspark.errors.api import (
    ApiLevelRequired,
    BadRequest,
    BatchDuplicate,
    BatchIncomplete,
    BatchNotEnabled,
    BatchRejected,
    BatchTooLarge,
    ConsumerExists,
    ConsumerNotFound,
    ExpectationFailed,
    InsufficientResources,
    JetStreamNotEnabled,
    MessageNotFound,
    MessageTooLarge,
    MinLastSequence,
    NotFound,
    StoreFailed,
    StreamExists,
    StreamFull,
    StreamNotFound,
    StreamSealed,
    SubjectsOverlap,
    TemporarilyUnavailable,
    TooManyBatches,
    TooManyRequests,
    TooManyResults,
    WrongLastMsgId,
    WrongLastSequence,
    WrongStream,
)
from jetspark.errors.base import ApiError, Error, api_error
from jetspark.errors.bodies import describe, error_body, fast_header_body
from jetspark.errors.client import (
    AlreadyClaimed,
    AlreadyEnded,
    AmbiguousSubject,
    AuthorizationFailed,
    BackupFailed,
    BadCredentials,
    BadName,
    BadSubject,
    BucketExists,
    BucketNotFound,
    BufferFull,
    CodecFailed,
    ConnectFailed,
    ConnectionClosed,
    ConsumerDeleted,
    ConsumerGap,
    DigestMismatch,
    FolderRefused,
    HeartbeatMissed,
    InvalidState,
    KeyExists,
    KeyNotFound,
    NoResponders,
    NotJetStreamMessage,
    NotSupported,
    ObjectExists,
    ObjectIncomplete,
    ObjectNotFound,
    PayloadTooLarge,
    PermissionsViolation,
    PinIdMismatch,
    ProtocolViolation,
    PullRefused,
    ReadOnly,
    RequestTimeout,
    ServerRefused,
    SlowConsumer,
    StatusReceived,
    SubscribeRefused,
)
from jetspark.errors.codes import ErrCode
from jetspark.errors.extras import MissingExtra
from jetspark.errors.schemas import (
    IncompatibleSchema,
    InvalidSchema,
    PayloadMismatch,
    SchemaNotFound,
)
from jetspark.errors.status import status_error
from jetspark.errors.storage import (
    CorruptRecord,
    ReadFailed,
    StorageFault,
    StoreClosed,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    UnknownRecordKind,
    WrongStoreFormat,
)

__all__ = [
    "AlreadyClaimed",
    "AlreadyEnded",
    "AmbiguousSubject",
    "ApiError",
    "ApiLevelRequired",
    "AuthorizationFailed",
    "BackupFailed",
    "BadCredentials",
    "BadName",
    "BadRequest",
    "BadSubject",
    "BatchDuplicate",
    "BatchIncomplete",
    "BatchNotEnabled",
    "BatchRejected",
    "BatchTooLarge",
    "BucketExists",
    "BucketNotFound",
    "BufferFull",
    "CodecFailed",
    "ConnectFailed",
    "ConnectionClosed",
    "ConsumerDeleted",
    "ConsumerExists",
    "ConsumerGap",
    "ConsumerNotFound",
    "CorruptRecord",
    "DigestMismatch",
    "ErrCode",
    "Error",
    "ExpectationFailed",
    "FolderRefused",
    "HeartbeatMissed",
    "IncompatibleSchema",
    "InsufficientResources",
    "InvalidSchema",
    "InvalidState",
    "JetStreamNotEnabled",
    "KeyExists",
    "KeyNotFound",
    "MessageNotFound",
    "MessageTooLarge",
    "MinLastSequence",
    "MissingExtra",
    "NoResponders",
    "NotFound",
    "NotJetStreamMessage",
    "NotSupported",
    "ObjectExists",
    "ObjectIncomplete",
    "ObjectNotFound",
    "PayloadMismatch",
    "PayloadTooLarge",
    "PermissionsViolation",
    "PinIdMismatch",
    "ProtocolViolation",
    "PullRefused",
    "ReadFailed",
    "ReadOnly",
    "RequestTimeout",
    "SchemaNotFound",
    "ServerRefused",
    "SlowConsumer",
    "StatusReceived",
    "StorageFault",
    "StoreClosed",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "StoreReadOnly",
    "StreamExists",
    "StreamFull",
    "StreamNotFound",
    "StreamSealed",
    "SubjectsOverlap",
    "SubscribeRefused",
    "TemporarilyUnavailable",
    "TooManyBatches",
    "TooManyRequests",
    "TooManyResults",
    "UnknownRecordKind",
    "WrongLastMsgId",
    "WrongLastSequence",
    "WrongStoreFormat",
    "WrongStream",
    "api_error",
    "describe",
    "error_body",
    "fast_header_body",
    "status_error",
]
