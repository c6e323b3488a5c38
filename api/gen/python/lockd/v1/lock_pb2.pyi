from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
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
    __slots__ = ("remaining", "anchor", "anchor_age")
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_AGE_FIELD_NUMBER: _ClassVar[int]
    remaining: _duration_pb2.Duration
    anchor: int
    anchor_age: _duration_pb2.Duration
    def __init__(self, remaining: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., anchor: _Optional[int] = ..., anchor_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class NotGranted(_message.Message):
    __slots__ = ("cause", "retry_after", "held_by", "name")
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
    cause: NotGranted.Cause
    retry_after: _duration_pb2.Duration
    held_by: str
    name: str
    def __init__(self, cause: _Optional[_Union[NotGranted.Cause, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., held_by: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

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
