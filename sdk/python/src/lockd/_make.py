"""What a client is made of, for both faces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from . import _check
from ._engine import Engine
from ._settings import TLS, Settings, Status, addresses


class ClientOptions(TypedDict, total=False):
    """What `connect` takes besides the addresses. Times are in seconds."""

    name: str
    """For people who look at locks: which program this is. At most 128 bytes."""
    labels: Mapping[str, str]
    """More about it. At most 32."""
    session_ttl: float | None
    """How long locks outlive the last sign of life. None: the server's default, usually 30."""
    answer_timeout: float
    """How long an answer that is due is waited for. 5 unless it is said."""
    connect_wait: float | None
    """How long `lock` waits for a connection. None: as long as for the lock."""
    actor: str
    """This client is one thread of work, of this id: deadlocks are found."""
    fail_on_deadlock: bool
    """A lock that waits in a deadlock may fail with DeadlockFound."""
    release_on_disconnect: bool
    """Locks are free sooner when the stream breaks, but may have two holders for a moment."""
    tls: TLS | None
    """Speaks TLS, with files."""
    token_file: str
    """Shows the token in a file to the server. The file is read again for each stream."""
    on_status: Callable[[Status], object] | None
    """Is told when the relation with the server changes, by a thread of the client, in order. It may use the client.
    It is told of the clients of `with_ttl`, too: `ttl` of the Status says which."""


def engine_of(given: str | Sequence[str], options: ClientOptions) -> Engine:
    """The engine of a client."""
    _check.options("connect", options, ClientOptions.__optional_keys__)
    return Engine(Settings(addresses(given), **options))
