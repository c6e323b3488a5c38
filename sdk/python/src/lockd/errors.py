"""What can go wrong, as exceptions. All are a LockdError, whose `reason` is the word of docs/errors.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import grpc

from lockd.v1 import lock_pb2, session_service_pb2

from ._clock import seconds

_LONGEST = 4096  # characters of a message


class LockdError(Exception):
    """Any failure of lockd. `reason` is the word for programs, such as LOCK_BUSY; `code` is the code of gRPC, or 0."""

    default_reason = ""

    def __init__(self, message: str = "", *, reason: str = "", code: int = 0) -> None:
        super().__init__(_cut(message) or (type(self).__doc__ or "").partition("\n")[0])
        self.reason = reason or self.default_reason
        self.code = code


class LockHeld(LockdError):
    """The lock is held by somebody else. Only tries (wait=0) raise it; `on_held` is told it while a lock waits."""

    default_reason = "LOCK_BUSY"
    name = ""
    retry_after: float | None = None
    """Seconds until the hold in the way ends unless it is renewed or released; None if that is not known."""
    held_by = ""
    """The owner as Redis knows it, empty if that is not known."""
    client = ""
    """How the client that holds it names itself, where the replica that answered knows."""
    annotation = ""
    peer = ""
    """The network address that the client came from, where it is known."""
    held_for: float | None = None
    """For how many seconds it holds it, where it is known."""


class TimedOut(LockdError, TimeoutError):
    """The wait ended before the lock was granted."""

    default_reason = "WAIT_TIMEOUT"


class Cancelled(LockdError):
    """The wait was cancelled."""

    default_reason = "WAIT_CANCELLED"


class DeadlockFound(LockdError):
    """The request waited in a deadlock. Release what this actor holds, and begin again."""

    default_reason = "DEADLOCK"
    deadlock: lock_pb2.Deadlock | None = None
    """Who waits for whom."""


class LockLost(LockdError):
    """The lock was lost: it ended without a release.

    `lost_reason` is EXPIRED, FORCED, DATA_LOSS, SESSION_ENDED, NO_QUORUM, FORBIDDEN, DEADLINE_PASSED (the time ended
    until which this client knew the lease to be good) or FORKED (this process is a copy of the one that holds it).
    `by` and `why` say who released it by force, and why, if that is known. `max_hold` says, with EXPIRED, that it was
    held for as long as the option `max_hold` allows.
    """

    default_reason = "LOCK_LOST"

    def __init__(
        self,
        name: str,
        lost_reason: str,
        *,
        by: str = "",
        why: str = "",
        max_hold: bool = False,
        cause: Exception | None = None,
    ) -> None:
        text = f"the lock {quoted(name)} was lost: {lost_reason}"
        text += ": held for the time of max_hold" if max_hold else ""
        text += f" by {by!r}" if by else ""
        text += f": {why!r}" if why else ""
        text += f": {cause}" if cause else ""
        super().__init__(text)
        self.name, self.lost_reason, self.by, self.why, self.max_hold = name, lost_reason, by, why, max_hold
        self.__cause__ = cause


class NotHeld(LockdError):
    """The lock is not held any more, or was unlocked before."""

    default_reason = "LOCK_NOT_HELD"


class StaleFence(LockdError):
    """The name is held with another fence."""

    default_reason = "FENCE_STALE"


class AutoLease(LockdError):
    """The lease is renewed by itself, there is nothing to extend."""

    default_reason = "LEASE_IS_AUTO"


class Unavailable(LockdError):
    """The server, or its store, cannot be reached. Surely nothing was done."""

    default_reason = "UNAVAILABLE"


class OutcomeUnknown(LockdError):
    """What was asked for may have been done, or not. Never take it for "no"."""

    default_reason = "OUTCOME_UNKNOWN"


class TimedOutUnknown(TimedOut, OutcomeUnknown):
    """The wait ended, and the server did not answer: a late grant is released, or its lease runs out."""


class Draining(LockdError):
    """The replica is about to stop. The client goes to another one by itself."""

    default_reason = "DRAINING"


class KindMismatch(LockdError):
    """The name is in use with another kind, or for something else."""

    default_reason = "LOCK_CONFIG_MISMATCH"


class LimitMismatch(LockdError):
    """The semaphore has another limit, or none yet."""

    default_reason = "LOCK_CONFIG_MISMATCH"
    limit = 0
    """How many permits there are, 0 if nobody has set that yet."""


class Upgrade(LockdError):
    """This holder reads the name. Release that hold before asking for the write lock."""

    default_reason = "LOCK_UPGRADE"


class StoreFull(LockdError):
    """The store has no room."""

    default_reason = "STORE_FULL"


class Unsupported(LockdError):
    """This server cannot do that."""

    default_reason = "UNIMPLEMENTED"


class SessionEnded(LockdError):
    """The session ended, and cannot go on."""

    default_reason = "SESSION_EXPIRED"


class SessionExpired(SessionEnded):
    """The session ended, or never was."""


class Superseded(SessionEnded):
    """The session goes on in another stream."""

    default_reason = "SUPERSEDED"


class SessionSilent(SessionEnded):
    """One side did not hear the other for a session TTL."""

    default_reason = "SESSION_SILENT"


class Backlog(SessionEnded):
    """The server gave up on this client because it did not read."""

    default_reason = "STREAM_BACKLOG"


class Invalid(LockdError, ValueError):
    """A value is not allowed. `reason` says which."""

    default_reason = "INVALID_MESSAGE"


class QuotaReached(LockdError):
    """A limit of the server is reached. `reason` says which."""

    default_reason = "QUOTA"


class Denied(LockdError):
    """The server does not let this client do that."""

    default_reason = "PERMISSION_DENIED"


class Forbidden(Denied):
    """This client has no right to do that, or has it no more."""

    default_reason = "FORBIDDEN"
    client = ""
    """The name that the server has for this client."""
    right = ""
    """The right that is missing."""
    name = ""
    """The lock that it is missing for, empty if it is not for one."""


class Unauthenticated(Denied):
    """The server does not accept the certificate or the token, or there is none."""

    default_reason = "UNAUTHENTICATED"


class ClientClosed(LockdError):
    """The client was closed."""

    default_reason = "CLIENT_CLOSED"


class ForkUnsupported(LockdError):
    """This process was forked from one in which gRPC was used, and gRPC was not told that it would be.

    Make the client in the child only, or set GRPC_ENABLE_FORK_SUPPORT=1 before gRPC is imported."""

    default_reason = "FORK_UNSUPPORTED"


class ProtocolError(LockdError):
    """One side does not keep to the protocol."""

    default_reason = "PROTOCOL"


# Turns the server's reasons into exceptions. One that ends in * stands for all that begin like it.
_REASONS: dict[str, type[LockdError]] = {
    "OUTCOME_UNKNOWN": OutcomeUnknown,
    "LOCK_BUSY": LockHeld,
    "LOCK_NOT_HELD": NotHeld,
    "FENCE_STALE": StaleFence,
    "LOCK_CONFIG_MISMATCH": KindMismatch,
    "LOCK_UPGRADE": Upgrade,
    "DEADLOCK": DeadlockFound,
    "STORE_FULL": StoreFull,
    "DRAINING": Draining,
    "SESSION_EXPIRED": SessionExpired,
    "SUPERSEDED": Superseded,
    "SESSION_SILENT": SessionSilent,
    "STREAM_BACKLOG": Backlog,
    "UNIMPLEMENTED": Unsupported,
    "KIND_UNSUPPORTED": Unsupported,
    "FORBIDDEN": Forbidden,
    "NO_CREDENTIALS": Unauthenticated,
    "TOKEN_INVALID": Unauthenticated,
    "TOKEN_EXPIRED": Unauthenticated,
    "CERTIFICATE_EXPIRED": Unauthenticated,
    "CLIENT_UNKNOWN": Unauthenticated,
    "IDENTITY_WITHDRAWN": Unauthenticated,
    "ADMIN_ONLY": Denied,
    "BACKEND_UNAVAILABLE": Unavailable,
    "NO_QUORUM": Unavailable,
    "KEYS_UNAVAILABLE": Unavailable,
    "ALREADY_HELD": Invalid,
    "NAME_RESERVED": Invalid,
    "REQUEST_NOT_WAITING": ProtocolError,
    "REQUEST_ID_REPEATED": ProtocolError,
    "SESSION_NOT_OPEN": ProtocolError,
    "SESSION_ALREADY_OPEN": ProtocolError,
    "FRAME_TOO_LARGE": ProtocolError,
}

# For errors without a reason: made by gRPC, or by something between us and the server.
_CODES: dict[int, type[LockdError]] = {
    3: Invalid,
    4: Unavailable,
    7: Denied,
    8: QuotaReached,
    12: Unsupported,
    14: Unavailable,
    16: Unauthenticated,
}

PERMANENT = (Denied, Invalid, Unsupported)
"""Trying again soon is without hope."""


def error_of(code: int, message: str, reason: str, metadata: Mapping[str, str]) -> LockdError:
    """The exception for what a server said."""
    kind = _REASONS.get(reason)
    if kind is None and reason.startswith("INVALID"):
        kind = Invalid
    elif kind is None and reason.startswith("QUOTA"):
        kind = QuotaReached
    kind = kind or _CODES.get(code, LockdError)
    limit = metadata.get("limit", "")
    if kind is KindMismatch and limit.isdecimal() and len(limit) < 20:
        kind = LimitMismatch
    e = kind(f"{message} ({reason})" if reason else message, reason=reason, code=code)
    if isinstance(e, LimitMismatch):
        e.limit = int(limit)
    if isinstance(e, Forbidden):
        e.client, e.right, e.name = (metadata.get(key, "") for key in ("client", "right", "name"))
    return e


def of_failure(failure: session_service_pb2.Failure) -> LockdError | None:
    """The exception for a Failure on the stream; None if it tells none."""
    if failure.code == 0:
        return None
    e = error_of(failure.code, failure.message, failure.reason, failure.metadata)
    if isinstance(e, DeadlockFound):
        e.deadlock = failure.deadlock
    return e


def of_rpc(error: grpc.RpcError) -> LockdError:
    """The exception for an error of gRPC. The trailer has lockd's reason, if lockd made it."""
    code: Any = error.code() if hasattr(error, "code") else None
    details = (error.details() if hasattr(error, "details") else "") or str(code)
    trailers: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    reason = str(dict(trailers or ()).get("lockd-reason", ""))
    return error_of(code.value[0] if code else 0, details, reason, {})


def held_error(name: str, n: lock_pb2.NotGranted | session_service_pb2.Queued) -> LockHeld:
    """What a server tells of a hold in the way."""
    who = n.client or n.held_by
    text = f"the lock {quoted(n.name or name)} is held" + (f" by {who!r}" if who else "")
    e = LockHeld(text + (f" ({n.annotation!r})" if who and n.annotation else ""))
    e.name, e.held_by, e.client, e.annotation = n.name or name, n.held_by, n.client, n.annotation
    e.peer = n.peer
    if n.HasField("held_for"):
        e.held_for = seconds(n.held_for)
    if isinstance(n, lock_pb2.NotGranted) and n.HasField("retry_after"):
        e.retry_after = seconds(n.retry_after)
    return e


def _cut(text: str) -> str:
    """A text of a server for people. Of a very long one it is the beginning."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def quoted(name: str) -> str:
    """A name in an error. Of a very long one it is the beginning."""
    text = json.dumps(name[:128], ensure_ascii=False)
    return text if len(name) <= 128 else f"{text}... ({len(name)} characters)"
