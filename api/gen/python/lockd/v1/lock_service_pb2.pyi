from google.protobuf import duration_pb2 as _duration_pb2
from lockd.v1 import lock_pb2 as _lock_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcquireRequest(_message.Message):
    __slots__ = ("name", "kind", "wait", "lease", "lease_id", "client_name", "annotation", "permits", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    wait: _duration_pb2.Duration
    lease: _duration_pb2.Duration
    lease_id: str
    client_name: str
    annotation: str
    permits: int
    limit: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease_id: _Optional[str] = ..., client_name: _Optional[str] = ..., annotation: _Optional[str] = ..., permits: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("granted", "not_granted")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    granted: Lease
    not_granted: _lock_pb2.NotGranted
    def __init__(self, granted: _Optional[_Union[Lease, _Mapping]] = ..., not_granted: _Optional[_Union[_lock_pb2.NotGranted, _Mapping]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("name", "lease_id", "fence", "valid_for")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    lease_id: str
    fence: int
    valid_for: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., lease_id: _Optional[str] = ..., fence: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("name", "kind", "lease_id", "lease", "may_shorten")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MAY_SHORTEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    lease_id: str
    lease: _duration_pb2.Duration
    may_shorten: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., lease_id: _Optional[str] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., may_shorten: bool = ...) -> None: ...

class ExtendResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("name", "kind", "lease_id", "keep")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LEASE_ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    lease_id: str
    keep: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., lease_id: _Optional[str] = ..., keep: _Optional[int] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("remaining",)
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    remaining: int
    def __init__(self, remaining: _Optional[int] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("lock",)
    LOCK_FIELD_NUMBER: _ClassVar[int]
    lock: _lock_pb2.LockState
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockState, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("locks", "next_page_token")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[_lock_pb2.LockState]
    next_page_token: str
    def __init__(self, locks: _Optional[_Iterable[_Union[_lock_pb2.LockState, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SetLimitRequest(_message.Message):
    __slots__ = ("name", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class SetLimitResponse(_message.Message):
    __slots__ = ("previous",)
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    previous: int
    def __init__(self, previous: _Optional[int] = ...) -> None: ...
