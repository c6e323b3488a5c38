from google.protobuf import duration_pb2 as _duration_pb2
from lockd.v1 import lock_pb2 as _lock_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ForceReleaseRequest(_message.Message):
    __slots__ = ("name", "kind", "why", "by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    why: str
    by: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., why: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class ForceReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: bool = ...) -> None: ...

class RemoveLimitRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveLimitResponse(_message.Message):
    __slots__ = ("previous",)
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    previous: int
    def __init__(self, previous: _Optional[int] = ...) -> None: ...

class AdoptLimitRequest(_message.Message):
    __slots__ = ("name", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    limit: int
    def __init__(self, name: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class AdoptLimitResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ("session_id", "why", "by")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    why: str
    by: str
    def __init__(self, session_id: _Optional[str] = ..., why: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class EndSessionResponse(_message.Message):
    __slots__ = ("ended", "replicas_answered", "replicas_asked", "released")
    ENDED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ended: bool
    replicas_answered: int
    replicas_asked: int
    released: bool
    def __init__(self, ended: bool = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., released: bool = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("within",)
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    within: _duration_pb2.Duration
    def __init__(self, within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("sessions", "replica")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    replica: str
    def __init__(self, sessions: _Optional[int] = ..., replica: _Optional[str] = ...) -> None: ...

class UndrainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UndrainResponse(_message.Message):
    __slots__ = ("drained", "replica")
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    drained: bool
    replica: str
    def __init__(self, drained: bool = ..., replica: _Optional[str] = ...) -> None: ...

class ExamineRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExamineResponse(_message.Message):
    __slots__ = ("findings", "replica", "version", "uptime", "store")
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    findings: _containers.RepeatedCompositeFieldContainer[Finding]
    replica: str
    version: str
    uptime: _duration_pb2.Duration
    store: str
    def __init__(self, findings: _Optional[_Iterable[_Union[Finding, _Mapping]]] = ..., replica: _Optional[str] = ..., version: _Optional[str] = ..., uptime: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., store: _Optional[str] = ...) -> None: ...

class Finding(_message.Message):
    __slots__ = ("severity", "check", "node", "detail", "remedy")
    class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SEVERITY_UNSPECIFIED: _ClassVar[Finding.Severity]
        SEVERITY_OK: _ClassVar[Finding.Severity]
        SEVERITY_INFO: _ClassVar[Finding.Severity]
        SEVERITY_WARNING: _ClassVar[Finding.Severity]
        SEVERITY_ERROR: _ClassVar[Finding.Severity]
    SEVERITY_UNSPECIFIED: Finding.Severity
    SEVERITY_OK: Finding.Severity
    SEVERITY_INFO: Finding.Severity
    SEVERITY_WARNING: Finding.Severity
    SEVERITY_ERROR: Finding.Severity
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    severity: Finding.Severity
    check: str
    node: str
    detail: str
    remedy: str
    def __init__(self, severity: _Optional[_Union[Finding.Severity, str]] = ..., check: _Optional[str] = ..., node: _Optional[str] = ..., detail: _Optional[str] = ..., remedy: _Optional[str] = ...) -> None: ...
