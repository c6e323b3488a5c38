from google.protobuf import duration_pb2 as _duration_pb2
from lockd.v1 import lock_pb2 as _lock_pb2
from lockd.v1 import session_service_pb2 as _session_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionInfo(_message.Message):
    __slots__ = ("session_id", "client_name", "labels", "peer", "age", "silence", "locks", "waiters", "replica", "watches", "detached", "identity")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    WATCHES_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_name: str
    labels: _containers.ScalarMap[str, str]
    peer: str
    age: _duration_pb2.Duration
    silence: _duration_pb2.Duration
    locks: int
    waiters: int
    replica: str
    watches: int
    detached: _duration_pb2.Duration
    identity: str
    def __init__(self, session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., peer: _Optional[str] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., silence: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., locks: _Optional[int] = ..., waiters: _Optional[int] = ..., replica: _Optional[str] = ..., watches: _Optional[int] = ..., detached: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., identity: _Optional[str] = ...) -> None: ...

class HolderInfo(_message.Message):
    __slots__ = ("owner", "origin", "kind", "session_id", "client_name", "labels", "peer", "replica", "age", "ttl", "auto", "fence", "hold_count", "permits", "annotation", "identity", "actor_mark")
    class Origin(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORIGIN_UNSPECIFIED: _ClassVar[HolderInfo.Origin]
        ORIGIN_SESSION: _ClassVar[HolderInfo.Origin]
        ORIGIN_UNARY: _ClassVar[HolderInfo.Origin]
        ORIGIN_OTHER: _ClassVar[HolderInfo.Origin]
        ORIGIN_REDISSON: _ClassVar[HolderInfo.Origin]
    ORIGIN_UNSPECIFIED: HolderInfo.Origin
    ORIGIN_SESSION: HolderInfo.Origin
    ORIGIN_UNARY: HolderInfo.Origin
    ORIGIN_OTHER: HolderInfo.Origin
    ORIGIN_REDISSON: HolderInfo.Origin
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    AUTO_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ACTOR_MARK_FIELD_NUMBER: _ClassVar[int]
    owner: str
    origin: HolderInfo.Origin
    kind: _lock_pb2.LockKind
    session_id: str
    client_name: str
    labels: _containers.ScalarMap[str, str]
    peer: str
    replica: str
    age: _duration_pb2.Duration
    ttl: _duration_pb2.Duration
    auto: bool
    fence: int
    hold_count: int
    permits: int
    annotation: str
    identity: str
    actor_mark: str
    def __init__(self, owner: _Optional[str] = ..., origin: _Optional[_Union[HolderInfo.Origin, str]] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., peer: _Optional[str] = ..., replica: _Optional[str] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., auto: bool = ..., fence: _Optional[int] = ..., hold_count: _Optional[int] = ..., permits: _Optional[int] = ..., annotation: _Optional[str] = ..., identity: _Optional[str] = ..., actor_mark: _Optional[str] = ...) -> None: ...

class WaiterInfo(_message.Message):
    __slots__ = ("name", "kind", "session_id", "client_name", "position", "age", "owner", "peer", "replica", "annotation", "time_left", "identity", "actor_mark")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ACTOR_MARK_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: _lock_pb2.LockKind
    session_id: str
    client_name: str
    position: int
    age: _duration_pb2.Duration
    owner: str
    peer: str
    replica: str
    annotation: str
    time_left: _duration_pb2.Duration
    identity: str
    actor_mark: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., position: _Optional[int] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., owner: _Optional[str] = ..., peer: _Optional[str] = ..., replica: _Optional[str] = ..., annotation: _Optional[str] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., identity: _Optional[str] = ..., actor_mark: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "client", "replica", "min_age", "detached")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    client: str
    replica: str
    min_age: _duration_pb2.Duration
    detached: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., client: _Optional[str] = ..., replica: _Optional[str] = ..., min_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., detached: bool = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token", "replicas_answered", "replicas_asked", "store_error")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionInfo]
    next_page_token: str
    replicas_answered: int
    replicas_asked: int
    store_error: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., store_error: _Optional[str] = ...) -> None: ...

class ListHoldsRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token", "client", "replica", "min_age")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    client: str
    replica: str
    min_age: _duration_pb2.Duration
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., client: _Optional[str] = ..., replica: _Optional[str] = ..., min_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListHoldsResponse(_message.Message):
    __slots__ = ("holds", "next_page_token", "replicas_answered", "replicas_asked", "store_error")
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    holds: _containers.RepeatedCompositeFieldContainer[HoldInfo]
    next_page_token: str
    replicas_answered: int
    replicas_asked: int
    store_error: str
    def __init__(self, holds: _Optional[_Iterable[_Union[HoldInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., store_error: _Optional[str] = ...) -> None: ...

class HoldInfo(_message.Message):
    __slots__ = ("lock", "holder")
    LOCK_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    lock: _lock_pb2.LockState
    holder: HolderInfo
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockState, _Mapping]] = ..., holder: _Optional[_Union[HolderInfo, _Mapping]] = ...) -> None: ...

class ListWaitersRequest(_message.Message):
    __slots__ = ("name", "page_size", "prefix", "client", "replica", "min_age")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    prefix: str
    client: str
    replica: str
    min_age: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., prefix: _Optional[str] = ..., client: _Optional[str] = ..., replica: _Optional[str] = ..., min_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListWaitersResponse(_message.Message):
    __slots__ = ("waiters", "replicas_answered", "replicas_asked", "store_error")
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    waiters: _containers.RepeatedCompositeFieldContainer[WaiterInfo]
    replicas_answered: int
    replicas_asked: int
    store_error: str
    def __init__(self, waiters: _Optional[_Iterable[_Union[WaiterInfo, _Mapping]]] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., store_error: _Optional[str] = ...) -> None: ...

class ListDeadlocksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDeadlocksResponse(_message.Message):
    __slots__ = ("deadlocks", "replicas_answered", "replicas_asked")
    DEADLOCKS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    deadlocks: _containers.RepeatedCompositeFieldContainer[_lock_pb2.Deadlock]
    replicas_answered: int
    replicas_asked: int
    def __init__(self, deadlocks: _Optional[_Iterable[_Union[_lock_pb2.Deadlock, _Mapping]]] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ...) -> None: ...

class ListEventsRequest(_message.Message):
    __slots__ = ("name", "page_size", "page_token", "max_age", "min_age")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    page_size: int
    page_token: str
    max_age: _duration_pb2.Duration
    min_age: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., max_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., min_age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListEventsResponse(_message.Message):
    __slots__ = ("events", "next_page_token", "replicas_answered", "replicas_asked", "store_error", "memories")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[EventInfo]
    next_page_token: str
    replicas_answered: int
    replicas_asked: int
    store_error: str
    memories: _containers.RepeatedCompositeFieldContainer[ReplicaMemory]
    def __init__(self, events: _Optional[_Iterable[_Union[EventInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., store_error: _Optional[str] = ..., memories: _Optional[_Iterable[_Union[ReplicaMemory, _Mapping]]] = ...) -> None: ...

class EventInfo(_message.Message):
    __slots__ = ("what", "age", "replica", "kind", "owner", "session_id", "client_name", "peer", "identity", "annotation", "fence", "permits", "waited", "held", "lease", "cause", "by", "why")
    class What(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WHAT_UNSPECIFIED: _ClassVar[EventInfo.What]
        WHAT_GRANTED: _ClassVar[EventInfo.What]
        WHAT_QUEUED: _ClassVar[EventInfo.What]
        WHAT_LEFT: _ClassVar[EventInfo.What]
        WHAT_RELEASED: _ClassVar[EventInfo.What]
        WHAT_HANDED_OVER: _ClassVar[EventInfo.What]
        WHAT_LOST: _ClassVar[EventInfo.What]
        WHAT_FORCED: _ClassVar[EventInfo.What]
        WHAT_LIMIT_CHANGED: _ClassVar[EventInfo.What]
        WHAT_MOVED_AWAY: _ClassVar[EventInfo.What]
        WHAT_RESUMED: _ClassVar[EventInfo.What]
    WHAT_UNSPECIFIED: EventInfo.What
    WHAT_GRANTED: EventInfo.What
    WHAT_QUEUED: EventInfo.What
    WHAT_LEFT: EventInfo.What
    WHAT_RELEASED: EventInfo.What
    WHAT_HANDED_OVER: EventInfo.What
    WHAT_LOST: EventInfo.What
    WHAT_FORCED: EventInfo.What
    WHAT_LIMIT_CHANGED: EventInfo.What
    WHAT_MOVED_AWAY: EventInfo.What
    WHAT_RESUMED: EventInfo.What
    WHAT_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    what: EventInfo.What
    age: _duration_pb2.Duration
    replica: str
    kind: _lock_pb2.LockKind
    owner: str
    session_id: str
    client_name: str
    peer: str
    identity: str
    annotation: str
    fence: int
    permits: int
    waited: _duration_pb2.Duration
    held: _duration_pb2.Duration
    lease: _duration_pb2.Duration
    cause: str
    by: str
    why: str
    def __init__(self, what: _Optional[_Union[EventInfo.What, str]] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., replica: _Optional[str] = ..., kind: _Optional[_Union[_lock_pb2.LockKind, str]] = ..., owner: _Optional[str] = ..., session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., peer: _Optional[str] = ..., identity: _Optional[str] = ..., annotation: _Optional[str] = ..., fence: _Optional[int] = ..., permits: _Optional[int] = ..., waited: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., held: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lease: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., cause: _Optional[str] = ..., by: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class ReplicaMemory(_message.Message):
    __slots__ = ("replica", "reach", "gone")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    replica: str
    reach: _duration_pb2.Duration
    gone: _duration_pb2.Duration
    def __init__(self, replica: _Optional[str] = ..., reach: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., gone: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListBusiestRequest(_message.Message):
    __slots__ = ("order", "page_size", "prefix", "window")
    class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORDER_UNSPECIFIED: _ClassVar[ListBusiestRequest.Order]
        ORDER_WAITING: _ClassVar[ListBusiestRequest.Order]
        ORDER_HELD: _ClassVar[ListBusiestRequest.Order]
        ORDER_TURNOVER: _ClassVar[ListBusiestRequest.Order]
    ORDER_UNSPECIFIED: ListBusiestRequest.Order
    ORDER_WAITING: ListBusiestRequest.Order
    ORDER_HELD: ListBusiestRequest.Order
    ORDER_TURNOVER: ListBusiestRequest.Order
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    order: ListBusiestRequest.Order
    page_size: int
    prefix: str
    window: _duration_pb2.Duration
    def __init__(self, order: _Optional[_Union[ListBusiestRequest.Order, str]] = ..., page_size: _Optional[int] = ..., prefix: _Optional[str] = ..., window: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ListBusiestResponse(_message.Message):
    __slots__ = ("names", "replicas_answered", "replicas_asked", "store_error", "memories")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[BusyInfo]
    replicas_answered: int
    replicas_asked: int
    store_error: str
    memories: _containers.RepeatedCompositeFieldContainer[ReplicaMemory]
    def __init__(self, names: _Optional[_Iterable[_Union[BusyInfo, _Mapping]]] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., store_error: _Optional[str] = ..., memories: _Optional[_Iterable[_Union[ReplicaMemory, _Mapping]]] = ...) -> None: ...

class BusyInfo(_message.Message):
    __slots__ = ("name", "waiters", "longest_wait", "holders", "waiting", "held", "turnover")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    LONGEST_WAIT_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TURNOVER_FIELD_NUMBER: _ClassVar[int]
    name: str
    waiters: int
    longest_wait: _duration_pb2.Duration
    holders: int
    waiting: float
    held: float
    turnover: float
    def __init__(self, name: _Optional[str] = ..., waiters: _Optional[int] = ..., longest_wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., holders: _Optional[int] = ..., waiting: _Optional[float] = ..., held: _Optional[float] = ..., turnover: _Optional[float] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("replica", "version", "uptime", "ready", "store_error", "draining", "sessions", "locks", "waiters", "store", "clients_file", "hidden")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FILE_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    replica: str
    version: str
    uptime: _duration_pb2.Duration
    ready: bool
    store_error: str
    draining: bool
    sessions: int
    locks: int
    waiters: int
    store: str
    clients_file: str
    hidden: bool
    def __init__(self, replica: _Optional[str] = ..., version: _Optional[str] = ..., uptime: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., ready: bool = ..., store_error: _Optional[str] = ..., draining: bool = ..., sessions: _Optional[int] = ..., locks: _Optional[int] = ..., waiters: _Optional[int] = ..., store: _Optional[str] = ..., clients_file: _Optional[str] = ..., hidden: bool = ...) -> None: ...

class InspectRequest(_message.Message):
    __slots__ = ("name", "max_waiters", "max_holders")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAX_WAITERS_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLDERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    max_waiters: int
    max_holders: int
    def __init__(self, name: _Optional[str] = ..., max_waiters: _Optional[int] = ..., max_holders: _Optional[int] = ...) -> None: ...

class InspectResponse(_message.Message):
    __slots__ = ("lock", "holders", "waiters", "replicas_answered", "replicas_asked", "store_error")
    LOCK_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_ASKED_FIELD_NUMBER: _ClassVar[int]
    STORE_ERROR_FIELD_NUMBER: _ClassVar[int]
    lock: _lock_pb2.LockState
    holders: _containers.RepeatedCompositeFieldContainer[HolderInfo]
    waiters: _containers.RepeatedCompositeFieldContainer[WaiterInfo]
    replicas_answered: int
    replicas_asked: int
    store_error: str
    def __init__(self, lock: _Optional[_Union[_lock_pb2.LockState, _Mapping]] = ..., holders: _Optional[_Iterable[_Union[HolderInfo, _Mapping]]] = ..., waiters: _Optional[_Iterable[_Union[WaiterInfo, _Mapping]]] = ..., replicas_answered: _Optional[int] = ..., replicas_asked: _Optional[int] = ..., store_error: _Optional[str] = ...) -> None: ...

class WhoAmIRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WhoAmIResponse(_message.Message):
    __slots__ = ("client", "credential", "expires_in", "lock", "look", "deny", "admin", "quotas", "replica", "peer")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    LOOK_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    client: str
    credential: str
    expires_in: _duration_pb2.Duration
    lock: _containers.RepeatedScalarFieldContainer[str]
    look: _containers.RepeatedScalarFieldContainer[str]
    deny: _containers.RepeatedScalarFieldContainer[str]
    admin: _containers.RepeatedScalarFieldContainer[str]
    quotas: _containers.RepeatedCompositeFieldContainer[QuotaUse]
    replica: str
    peer: str
    def __init__(self, client: _Optional[str] = ..., credential: _Optional[str] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lock: _Optional[_Iterable[str]] = ..., look: _Optional[_Iterable[str]] = ..., deny: _Optional[_Iterable[str]] = ..., admin: _Optional[_Iterable[str]] = ..., quotas: _Optional[_Iterable[_Union[QuotaUse, _Mapping]]] = ..., replica: _Optional[str] = ..., peer: _Optional[str] = ...) -> None: ...

class QuotaUse(_message.Message):
    __slots__ = ("subject", "limit", "used")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    subject: str
    limit: int
    used: int
    def __init__(self, subject: _Optional[str] = ..., limit: _Optional[int] = ..., used: _Optional[int] = ...) -> None: ...

class CanRequest(_message.Message):
    __slots__ = ("verb", "name")
    VERB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    verb: str
    name: str
    def __init__(self, verb: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class CanResponse(_message.Message):
    __slots__ = ("allowed", "failure")
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    failure: _session_service_pb2.Failure
    def __init__(self, allowed: bool = ..., failure: _Optional[_Union[_session_service_pb2.Failure, _Mapping]] = ...) -> None: ...
