from google.protobuf import duration_pb2 as _duration_pb2
from lockd.v1 import lock_pb2 as _lock_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Feature(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEATURE_UNSPECIFIED: _ClassVar[Feature]
    FEATURE_BATCH: _ClassVar[Feature]
    FEATURE_RESUME: _ClassVar[Feature]

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DISCONNECT_UNSPECIFIED: _ClassVar[OnDisconnect]
    ON_DISCONNECT_EXPIRE: _ClassVar[OnDisconnect]
    ON_DISCONNECT_RELEASE: _ClassVar[OnDisconnect]

class DeadlockPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEADLOCK_POLICY_UNSPECIFIED: _ClassVar[DeadlockPolicy]
    DEADLOCK_POLICY_WAIT: _ClassVar[DeadlockPolicy]
    DEADLOCK_POLICY_FAIL: _ClassVar[DeadlockPolicy]
FEATURE_UNSPECIFIED: Feature
FEATURE_BATCH: Feature
FEATURE_RESUME: Feature
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
ON_DISCONNECT_EXPIRE: OnDisconnect
ON_DISCONNECT_RELEASE: OnDisconnect
DEADLOCK_POLICY_UNSPECIFIED: DeadlockPolicy
DEADLOCK_POLICY_WAIT: DeadlockPolicy
DEADLOCK_POLICY_FAIL: DeadlockPolicy

class SessionRequest(_message.Message):
    __slots__ = ("request_id", "open", "heartbeat", "acquire", "cancel", "release", "extend", "watch", "unwatch", "goodbye", "batch", "look", "list_holds", "set_limit")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    UNWATCH_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    LIST_HOLDS_FIELD_NUMBER: _ClassVar[int]
    SET_LIMIT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    open: Open
    heartbeat: Heartbeat
    acquire: Acquire
    cancel: Cancel
    release: Release
    extend: Extend
    watch: Watch
    unwatch: Unwatch
    goodbye: Goodbye
    batch: RequestBatch
    look: Look
    list_holds: ListHolds
    set_limit: SetLimit
    def __init__(self, request_id: _Optional[int] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., acquire: _Optional[_Union[Acquire, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ..., watch: _Optional[_Union[Watch, _Mapping]] = ..., unwatch: _Optional[_Union[Unwatch, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., batch: _Optional[_Union[RequestBatch, _Mapping]] = ..., look: _Optional[_Union[Look, _Mapping]] = ..., list_holds: _Optional[_Union[ListHolds, _Mapping]] = ..., set_limit: _Optional[_Union[SetLimit, _Mapping]] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("request_id", "opened", "heartbeat_ack", "granted", "not_granted", "queued", "released", "extended", "result", "looked", "hold_list", "limit_set", "lost", "at_risk", "safe", "unlocked", "draining", "closing", "batch", "unwatched")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    LOOKED_FIELD_NUMBER: _ClassVar[int]
    HOLD_LIST_FIELD_NUMBER: _ClassVar[int]
    LIMIT_SET_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    AT_RISK_FIELD_NUMBER: _ClassVar[int]
    SAFE_FIELD_NUMBER: _ClassVar[int]
    UNLOCKED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CLOSING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    UNWATCHED_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    opened: Opened
    heartbeat_ack: HeartbeatAck
    granted: Granted
    not_granted: _lock_pb2.NotGranted
    queued: Queued
    released: Released
    extended: Extended
    result: Result
    looked: Looked
    hold_list: HoldList
    limit_set: LimitSet
    lost: Lost
    at_risk: AtRisk
    safe: Safe
    unlocked: Unlocked
    draining: Draining
    closing: Closing
    batch: ResponseBatch
    unwatched: Unwatched
    def __init__(self, request_id: _Optional[int] = ..., opened: _Optional[_Union[Opened, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., granted: _Optional[_Union[Granted, _Mapping]] = ..., not_granted: _Optional[_Union[_lock_pb2.NotGranted, _Mapping]] = ..., queued: _Optional[_Union[Queued, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ..., extended: _Optional[_Union[Extended, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., looked: _Optional[_Union[Looked, _Mapping]] = ..., hold_list: _Optional[_Union[HoldList, _Mapping]] = ..., limit_set: _Optional[_Union[LimitSet, _Mapping]] = ..., lost: _Optional[_Union[Lost, _Mapping]] = ..., at_risk: _Optional[_Union[AtRisk, _Mapping]] = ..., safe: _Optional[_Union[Safe, _Mapping]] = ..., unlocked: _Optional[_Union[Unlocked, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., closing: _Optional[_Union[Closing, _Mapping]] = ..., batch: _Optional[_Union[ResponseBatch, _Mapping]] = ..., unwatched: _Optional[_Union[Unwatched, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("client_name", "labels", "session_ttl", "on_disconnect", "features", "resume", "deadlock", "actor")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SESSION_TTL_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    DEADLOCK_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    labels: _containers.ScalarMap[str, str]
    session_ttl: _duration_pb2.Duration
    on_disconnect: OnDisconnect
    features: _containers.RepeatedScalarFieldContainer[Feature]
    resume: Resume
    deadlock: DeadlockPolicy
    actor: str
    def __init__(self, client_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., session_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., features: _Optional[_Iterable[_Union[Feature, str]]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., deadlock: _Optional[_Union[DeadlockPolicy, str]] = ..., actor: _Optional[str] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("session_id", "resume_token", "holds", "epoch", "last_request_id", "age")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    resume_token: str
    holds: _containers.RepeatedCompositeFieldContainer[HeldLock]
    epoch: int
    last_request_id: int
    age: _duration_pb2.Duration
    def __init__(self, session_id: _Optional[str] = ..., resume_token: _Optional[str] = ..., holds: _Optional[_Iterable[_Union[HeldLock, _Mapping]]] = ..., epoch: _Optional[int] = ..., last_request_id: _Optional[int] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("session_id", "resume_token", "session_ttl", "heartbeat_interval", "replica", "features", "limits", "resumed", "lost")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSION_TTL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    resume_token: str
    session_ttl: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    replica: str
    features: _containers.RepeatedScalarFieldContainer[Feature]
    limits: Limits
    resumed: _containers.RepeatedCompositeFieldContainer[HeldLock]
    lost: _containers.RepeatedCompositeFieldContainer[Lost]
    def __init__(self, session_id: _Optional[str] = ..., resume_token: _Optional[str] = ..., session_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., replica: _Optional[str] = ..., features: _Optional[_Iterable[_Union[Feature, str]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., resumed: _Optional[_Iterable[_Union[HeldLock, _Mapping]]] = ..., lost: _Optional[_Iterable[_Union[Lost, _Mapping]]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("name_bytes", "holder_bytes", "annotation_bytes", "frame_bytes", "locks_per_session", "waiters_per_session", "watches_per_session", "min_lease", "max_lease", "max_wait", "names_per_acquire", "permits_per_acquire", "hold_count", "max_hold")
    NAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOLDER_BYTES_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_BYTES_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOCKS_PER_SESSION_FIELD_NUMBER: _ClassVar[int]
    WAITERS_PER_SESSION_FIELD_NUMBER: _ClassVar[int]
    WATCHES_PER_SESSION_FIELD_NUMBER: _ClassVar[int]
    MIN_LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASE_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    NAMES_PER_ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    PERMITS_PER_ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    name_bytes: int
    holder_bytes: int
    annotation_bytes: int
    frame_bytes: int
    locks_per_session: int
    waiters_per_session: int
    watches_per_session: int
    min_lease: _duration_pb2.Duration
    max_lease: _duration_pb2.Duration
    max_wait: _duration_pb2.Duration
    names_per_acquire: int
    permits_per_acquire: int
    hold_count: int
    max_hold: _duration_pb2.Duration
    def __init__(self, name_bytes: _Optional[int] = ..., holder_bytes: _Optional[int] = ..., annotation_bytes: _Optional[int] = ..., frame_bytes: _Optional[int] = ..., locks_per_session: _Optional[int] = ..., waiters_per_session: _Optional[int] = ..., watches_per_session: _Optional[int] = ..., min_lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., names_per_acquire: _Optional[int] = ..., permits_per_acquire: _Optional[int] = ..., hold_count: _Optional[int] = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sent_id",)
    SENT_ID_FIELD_NUMBER: _ClassVar[int]
    sent_id: int
    def __init__(self, sent_id: _Optional[int] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("sent_id", "valid_for")
    SENT_ID_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    sent_id: int
    valid_for: _duration_pb2.Duration
    def __init__(self, sent_id: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Acquire(_message.Message):
    __slots__ = ("name", "names", "kind", "holder", "permits", "wait", "lease", "annotation", "limit", "items", "instead_of", "actor", "traceparent", "waited", "max_hold", "tell_holder")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    INSTEAD_OF_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    TELL_HOLDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    names: _containers.RepeatedScalarFieldContainer[str]
    kind: _lock_pb2.LockKind
    holder: str
    permits: int
    wait: _duration_pb2.Duration
    lease: _duration_pb2.Duration
    annotation: str
    limit: int
    items: _containers.RepeatedCompositeFieldContainer[AcquireItem]
    instead_of: _containers.RepeatedScalarFieldContainer[int]
    actor: str
    traceparent: str
    waited: _duration_pb2.Duration
    max_hold: _duration_pb2.Duration
    tell_holder: bool
    def __init__(self, name: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., holder: _Optional[str] = ..., permits: _Optional[int] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., annotation: _Optional[str] = ..., limit: _Optional[int] = ..., items: _Optional[_Iterable[_Union[AcquireItem, _Mapping]]] = ..., instead_of: _Optional[_Iterable[int]] = ..., actor: _Optional[str] = ..., traceparent: _Optional[str] = ..., waited: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., tell_holder: bool = ...) -> None: ...

class AcquireItem(_message.Message):
    __slots__ = ("name", "kind", "permits", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    permits: int
    limit: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., permits: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("target_id",)
    TARGET_ID_FIELD_NUMBER: _ClassVar[int]
    target_id: int
    def __init__(self, target_id: _Optional[int] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("name", "kind", "holder", "fence", "keep")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    holder: str
    fence: int
    keep: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., holder: _Optional[str] = ..., fence: _Optional[int] = ..., keep: _Optional[int] = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("name", "kind", "holder", "fence", "lease", "may_shorten")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAY_SHORTEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    holder: str
    fence: int
    lease: _duration_pb2.Duration
    may_shorten: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., holder: _Optional[str] = ..., fence: _Optional[int] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., may_shorten: bool = ...) -> None: ...

class Look(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Looked(_message.Message):
    __slots__ = ("lock",)
    LOCK_FIELD_NUMBER: _ClassVar[int]
    lock: _lock_pb2.LockState
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockState, _Mapping]] = ...) -> None: ...

class ListHolds(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class HoldList(_message.Message):
    __slots__ = ("locks", "next_page_token")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[HeldLock]
    next_page_token: str
    def __init__(self, locks: _Optional[_Iterable[_Union[HeldLock, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class HeldLock(_message.Message):
    __slots__ = ("hold", "validity", "hold_count", "auto", "permits", "age", "annotation", "max_hold")
    HOLD_FIELD_NUMBER: _ClassVar[int]
    VALIDITY_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTO_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    hold: _lock_pb2.Hold
    validity: _lock_pb2.Validity
    hold_count: int
    auto: bool
    permits: int
    age: _duration_pb2.Duration
    annotation: str
    max_hold: _duration_pb2.Duration
    def __init__(self, hold: _Optional[_Union[_lock_pb2.Hold, _Mapping]] = ..., validity: _Optional[_Union[_lock_pb2.Validity, _Mapping]] = ..., hold_count: _Optional[int] = ..., auto: bool = ..., permits: _Optional[int] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., annotation: _Optional[str] = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SetLimit(_message.Message):
    __slots__ = ("name", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class LimitSet(_message.Message):
    __slots__ = ("previous",)
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    previous: int
    def __init__(self, previous: _Optional[int] = ...) -> None: ...

class Watch(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Unwatch(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestBatch(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[SessionRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[SessionRequest, _Mapping]]] = ...) -> None: ...

class ResponseBatch(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[SessionResponse]
    def __init__(self, responses: _Optional[_Iterable[_Union[SessionResponse, _Mapping]]] = ...) -> None: ...

class Granted(_message.Message):
    __slots__ = ("holds", "validity", "hold_count", "auto", "max_hold")
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    VALIDITY_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    AUTO_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    holds: _containers.RepeatedCompositeFieldContainer[_lock_pb2.Hold]
    validity: _lock_pb2.Validity
    hold_count: int
    auto: bool
    max_hold: _duration_pb2.Duration
    def __init__(self, holds: _Optional[_Iterable[_Union[_lock_pb2.Hold, _Mapping]]] = ..., validity: _Optional[_Union[_lock_pb2.Validity, _Mapping]] = ..., hold_count: _Optional[int] = ..., auto: bool = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Queued(_message.Message):
    __slots__ = ("position", "held_by", "name", "client", "annotation", "peer", "held_for")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    position: int
    held_by: str
    name: str
    client: str
    annotation: str
    peer: str
    held_for: _duration_pb2.Duration
    def __init__(self, position: _Optional[int] = ..., held_by: _Optional[str] = ..., name: _Optional[str] = ..., client: _Optional[str] = ..., annotation: _Optional[str] = ..., peer: _Optional[str] = ..., held_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Released(_message.Message):
    __slots__ = ("remaining", "validity")
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    VALIDITY_FIELD_NUMBER: _ClassVar[int]
    remaining: int
    validity: _lock_pb2.Validity
    def __init__(self, remaining: _Optional[int] = ..., validity: _Optional[_Union[_lock_pb2.Validity, _Mapping]] = ...) -> None: ...

class Extended(_message.Message):
    __slots__ = ("validity",)
    VALIDITY_FIELD_NUMBER: _ClassVar[int]
    validity: _lock_pb2.Validity
    def __init__(self, validity: _Optional[_Union[_lock_pb2.Validity, _Mapping]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "message", "reason", "metadata", "retry_after", "deadlock")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    DEADLOCK_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    metadata: _containers.ScalarMap[str, str]
    retry_after: _duration_pb2.Duration
    deadlock: _lock_pb2.Deadlock
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., deadlock: _Optional[_Union[_lock_pb2.Deadlock, _Mapping]] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("hold", "reason", "by", "why", "cause")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[Lost.Reason]
        REASON_EXPIRED: _ClassVar[Lost.Reason]
        REASON_FORCED: _ClassVar[Lost.Reason]
        REASON_DATA_LOSS: _ClassVar[Lost.Reason]
        REASON_SESSION_ENDED: _ClassVar[Lost.Reason]
        REASON_NO_QUORUM: _ClassVar[Lost.Reason]
        REASON_FORBIDDEN: _ClassVar[Lost.Reason]
    REASON_UNSPECIFIED: Lost.Reason
    REASON_EXPIRED: Lost.Reason
    REASON_FORCED: Lost.Reason
    REASON_DATA_LOSS: Lost.Reason
    REASON_SESSION_ENDED: Lost.Reason
    REASON_NO_QUORUM: Lost.Reason
    REASON_FORBIDDEN: Lost.Reason
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CAUSE_UNSPECIFIED: _ClassVar[Lost.Cause]
        CAUSE_MAX_HOLD: _ClassVar[Lost.Cause]
    CAUSE_UNSPECIFIED: Lost.Cause
    CAUSE_MAX_HOLD: Lost.Cause
    HOLD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    hold: _lock_pb2.Hold
    reason: Lost.Reason
    by: str
    why: str
    cause: Lost.Cause
    def __init__(self, hold: _Optional[_Union[_lock_pb2.Hold, _Mapping]] = ..., reason: _Optional[_Union[Lost.Reason, str]] = ..., by: _Optional[str] = ..., why: _Optional[str] = ..., cause: _Optional[_Union[Lost.Cause, str]] = ...) -> None: ...

class AtRisk(_message.Message):
    __slots__ = ("validity",)
    VALIDITY_FIELD_NUMBER: _ClassVar[int]
    validity: _lock_pb2.Validity
    def __init__(self, validity: _Optional[_Union[_lock_pb2.Validity, _Mapping]] = ...) -> None: ...

class Safe(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Unlocked(_message.Message):
    __slots__ = ("name", "cause", "fence", "merged", "hold")
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CAUSE_UNSPECIFIED: _ClassVar[Unlocked.Cause]
        CAUSE_RELEASED: _ClassVar[Unlocked.Cause]
        CAUSE_HANDED_OVER: _ClassVar[Unlocked.Cause]
        CAUSE_EXPIRED: _ClassVar[Unlocked.Cause]
        CAUSE_FORCED: _ClassVar[Unlocked.Cause]
        CAUSE_DATA_LOSS: _ClassVar[Unlocked.Cause]
    CAUSE_UNSPECIFIED: Unlocked.Cause
    CAUSE_RELEASED: Unlocked.Cause
    CAUSE_HANDED_OVER: Unlocked.Cause
    CAUSE_EXPIRED: Unlocked.Cause
    CAUSE_FORCED: Unlocked.Cause
    CAUSE_DATA_LOSS: Unlocked.Cause
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    name: str
    cause: Unlocked.Cause
    fence: int
    merged: int
    hold: str
    def __init__(self, name: _Optional[str] = ..., cause: _Optional[_Union[Unlocked.Cause, str]] = ..., fence: _Optional[int] = ..., merged: _Optional[int] = ..., hold: _Optional[str] = ...) -> None: ...

class Unwatched(_message.Message):
    __slots__ = ("name", "failure")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    name: str
    failure: Failure
    def __init__(self, name: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("reconnect_within",)
    RECONNECT_WITHIN_FIELD_NUMBER: _ClassVar[int]
    reconnect_within: _duration_pb2.Duration
    def __init__(self, reconnect_within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Closing(_message.Message):
    __slots__ = ("failure",)
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    failure: Failure
    def __init__(self, failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...
