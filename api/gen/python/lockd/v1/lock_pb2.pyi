from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_KIND_UNSPECIFIED: _ClassVar[LockKind]
    LOCK_KIND_EXCLUSIVE: _ClassVar[LockKind]
    LOCK_KIND_FAIR: _ClassVar[LockKind]
    LOCK_KIND_READ: _ClassVar[LockKind]
    LOCK_KIND_WRITE: _ClassVar[LockKind]
    LOCK_KIND_SEMAPHORE: _ClassVar[LockKind]
LOCK_KIND_UNSPECIFIED: LockKind
LOCK_KIND_EXCLUSIVE: LockKind
LOCK_KIND_FAIR: LockKind
LOCK_KIND_READ: LockKind
LOCK_KIND_WRITE: LockKind
LOCK_KIND_SEMAPHORE: LockKind

class Hold(_message.Message):
    __slots__ = ("name", "kind", "holder", "fence", "acquired_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: LockKind
    holder: str
    fence: int
    acquired_by: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[LockKind, str]] = ..., holder: _Optional[str] = ..., fence: _Optional[int] = ..., acquired_by: _Optional[int] = ...) -> None: ...

class Validity(_message.Message):
    __slots__ = ("remaining", "anchor", "anchor_age", "until_max_hold")
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_AGE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    remaining: _duration_pb2.Duration
    anchor: int
    anchor_age: _duration_pb2.Duration
    until_max_hold: bool
    def __init__(self, remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., anchor: _Optional[int] = ..., anchor_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., until_max_hold: bool = ...) -> None: ...

class NotGranted(_message.Message):
    __slots__ = ("cause", "retry_after", "held_by", "name", "client", "annotation", "peer", "held_for")
    class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CAUSE_UNSPECIFIED: _ClassVar[NotGranted.Cause]
        CAUSE_HELD: _ClassVar[NotGranted.Cause]
        CAUSE_TIMED_OUT: _ClassVar[NotGranted.Cause]
        CAUSE_CANCELLED: _ClassVar[NotGranted.Cause]
    CAUSE_UNSPECIFIED: NotGranted.Cause
    CAUSE_HELD: NotGranted.Cause
    CAUSE_TIMED_OUT: NotGranted.Cause
    CAUSE_CANCELLED: NotGranted.Cause
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    cause: NotGranted.Cause
    retry_after: _duration_pb2.Duration
    held_by: str
    name: str
    client: str
    annotation: str
    peer: str
    held_for: _duration_pb2.Duration
    def __init__(self, cause: _Optional[_Union[NotGranted.Cause, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., held_by: _Optional[str] = ..., name: _Optional[str] = ..., client: _Optional[str] = ..., annotation: _Optional[str] = ..., peer: _Optional[str] = ..., held_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LockState(_message.Message):
    __slots__ = ("name", "kind", "held", "held_by", "client", "fence", "ttl", "hold_count", "waiters", "annotation", "holders", "limit", "queued", "members")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: LockKind
    held: bool
    held_by: str
    client: str
    fence: int
    ttl: _duration_pb2.Duration
    hold_count: int
    waiters: int
    annotation: str
    holders: int
    limit: int
    queued: int
    members: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[LockKind, str]] = ..., held: bool = ..., held_by: _Optional[str] = ..., client: _Optional[str] = ..., fence: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., hold_count: _Optional[int] = ..., waiters: _Optional[int] = ..., annotation: _Optional[str] = ..., holders: _Optional[int] = ..., limit: _Optional[int] = ..., queued: _Optional[int] = ..., members: _Optional[int] = ...) -> None: ...

class Deadlock(_message.Message):
    __slots__ = ("members", "omitted")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    OMITTED_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[DeadlockMember]
    omitted: int
    def __init__(self, members: _Optional[_Iterable[_Union[DeadlockMember, _Mapping]]] = ..., omitted: _Optional[int] = ...) -> None: ...

class DeadlockMember(_message.Message):
    __slots__ = ("name", "kind", "owner", "session_id", "client_name", "peer", "replica", "annotation", "age", "time_left", "held_by", "fence", "fails")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    FAILS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: LockKind
    owner: str
    session_id: str
    client_name: str
    peer: str
    replica: str
    annotation: str
    age: _duration_pb2.Duration
    time_left: _duration_pb2.Duration
    held_by: str
    fence: int
    fails: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[LockKind, str]] = ..., owner: _Optional[str] = ..., session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., peer: _Optional[str] = ..., replica: _Optional[str] = ..., annotation: _Optional[str] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., held_by: _Optional[str] = ..., fence: _Optional[int] = ..., fails: bool = ...) -> None: ...
